#include "cli/result_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "store/checksum.h"
#include "text/json.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

// What an interruption may leave of a line begins as every result does.
constexpr std::string_view kStart = R"({"id":"batch_req_)";

bool may_be_begun(std::string_view rest) {
  const std::size_t common = std::min(rest.size(), kStart.size());
  return rest.substr(0, common) == kStart.substr(0, common);
}

std::optional<KnownResult> read_result(std::string_view line) {
  const auto json = text::parse_json(line, "a result", ErrorKind::usage);
  if (!json || !json->is_object() || !json->contains("response")) return std::nullopt;
  const auto text_of = [&](const char* key) -> const std::string* {
    const auto at = json->find(key);
    return at == json->end() ? nullptr : at->get_ptr<const std::string*>();
  };
  const std::string* const name = text_of("custom_id");
  const std::string* const id = text_of("id");
  if (name == nullptr || id == nullptr) return std::nullopt;
  KnownResult result = {.name = digest_of(*name), .id = store::checksum_of(*id)};
  const text::Json& response = json->at("response");
  if (response.is_object() && response.contains("status_code")) {
    const text::Json& status = response.at("status_code");
    if (status.is_number_integer()) result.status = status.get<int>();
  }
  return result;
}

}  // namespace

NameDigest digest_of(std::string_view custom_id) {
  return {store::checksum_of(custom_id), store::checksum_of("custom_id " + std::string(custom_id))};
}

ResultFile::~ResultFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status ResultFile::read(OnResult on_result) {
  std::error_code ignored;
  const fs::file_status there = fs::status(path_, ignored);
  is_regular_ = !fs::exists(there) || fs::is_regular_file(there);
  if (!fs::is_regular_file(there)) return {};  // a device or a pipe remembers nothing
  SLUICE_TRY(open_and_lock(0));
  return read_lines(on_result);
}

Status ResultFile::read_lines(OnResult on_result) {
  std::ifstream in(path_, std::ios::binary);
  if (!in) return failed(ErrorKind::usage, "cannot be read");
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const bool is_whole = !in.eof();
    const auto result = is_whole ? read_result(line) : std::nullopt;
    if (!result && (is_whole || !may_be_begun(line))) {
      return fail(ErrorKind::usage, "--out: {}: line {} is no result of a batch; give another file",
                  path_.string(), number);
    }
    if (!result) break;
    known_.push_back(*result);
    sound_bytes_ += line.size() + 1;
    on_result(known_.size());
  }
  if (in.bad()) return failed(ErrorKind::drive, "cannot be read");
  std::ranges::stable_sort(known_, {}, &KnownResult::name);
  return {};
}

const KnownResult* ResultFile::find(const NameDigest& name) const {
  const auto behind = std::ranges::upper_bound(known_, name, {}, &KnownResult::name);
  if (behind == known_.begin() || std::prev(behind)->name != name) return nullptr;
  return &*std::prev(behind);
}

void ResultFile::forget() { known_ = {}; }

Status ResultFile::open() {
  if (descriptor_ < 0) {
    SLUICE_TRY(open_and_lock(O_CREAT));
    struct stat status {};
    if (is_regular_ && ::fstat(descriptor_, &status) == 0 && status.st_size > 0) {
      return taken();  // made and filled since read()
    }
  }
  if (is_regular_ && ::ftruncate(descriptor_, static_cast<off_t>(sound_bytes_)) != 0) {
    return failed(ErrorKind::drive, "cannot be cut to its whole lines");
  }
  return {};
}

Status ResultFile::open_and_lock(int flags) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_APPEND | flags, 0644);
  if (descriptor_ < 0) return failed(ErrorKind::usage, "cannot be opened");
  while (is_regular_ && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return taken();
    break;  // a file system without locks
  }
  return {};
}

tl::unexpected<Error> ResultFile::taken() const {
  return fail(ErrorKind::usage,
              "--out: {}: another sluice batch is writing into this file; wait until it has ended, "
              "or give another file",
              path_.string());
}

Status ResultFile::add(std::string_view line) {
  while (!line.empty()) {
    const ssize_t count = ::write(descriptor_, line.data(), line.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(ErrorKind::drive, "cannot be written");
    line.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL) {
    return failed(ErrorKind::drive, "cannot be written");
  }
  return {};
}

tl::unexpected<Error> ResultFile::failed(ErrorKind kind, const char* what) const {
  return fail(kind, "--out: {}: {}: {}", path_.string(), what,
              std::generic_category().message(errno));
}

}  // namespace sluice::cli
