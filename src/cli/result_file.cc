#include "cli/result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>

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

struct KnownResult {
  std::string custom_id;
  std::string id;
};

std::optional<KnownResult> read_result(std::string_view line) {
  const auto json = text::parse_json(line, "a result", ErrorKind::usage);
  if (!json || !json->is_object() || !json->contains("response")) return std::nullopt;
  const auto text_of = [&](const char* key) -> std::optional<std::string> {
    const auto at = json->find(key);
    if (at == json->end() || !at->is_string()) return std::nullopt;
    return at->get<std::string>();
  };
  const auto name = text_of("custom_id");
  const auto id = text_of("id");
  if (!name || !id) return std::nullopt;
  return KnownResult{*name, *id};
}

}  // namespace

ResultFile::~ResultFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<ResultFile::Known> ResultFile::read() {
  std::error_code ignored;
  const fs::file_status there = fs::status(path_, ignored);
  is_regular_ = !fs::exists(there) || fs::is_regular_file(there);
  Known known;
  if (!fs::is_regular_file(there)) return known;  // a device or a pipe remembers nothing
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
    known[result->custom_id] = result->id;
    sound_bytes_ += line.size() + 1;
  }
  if (in.bad()) return failed(ErrorKind::drive, "cannot be read");
  return known;
}

Status ResultFile::open() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
  if (descriptor_ < 0) return failed(ErrorKind::usage, "cannot be opened");
  if (is_regular_ && ::ftruncate(descriptor_, static_cast<off_t>(sound_bytes_)) != 0) {
    return failed(ErrorKind::drive, "cannot be cut to its whole lines");
  }
  return {};
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
