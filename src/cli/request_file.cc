#include "cli/request_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/size.h"
#include "store/checksum.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
constexpr std::uint64_t kMostCopied = std::uint64_t{64} << 20;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<RequestFile> RequestFile::open(const std::string& path, std::size_t longest) {
  RequestFile file(path, longest);
  const int input = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (input < 0) return file.failed(ErrorKind::usage, "cannot be opened");
  struct stat status {};
  if (::fstat(input, &status) == 0 && S_ISREG(status.st_mode)) {
    file.descriptor_ = input;
    return file;
  }
  const Status copied = file.copy_from(input);
  ::close(input);
  SLUICE_TRY(copied);
  return file;
}

RequestFile::RequestFile(RequestFile&& other) noexcept
    : path_(std::move(other.path_)),
      longest_(other.longest_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

RequestFile::~RequestFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status RequestFile::copy_from(int input) {
  std::FILE* const copy = std::tmpfile();  // it has no name, and ends with its descriptor
  if (copy == nullptr) return failed(ErrorKind::usage, "cannot be copied to a temporary file");
  descriptor_ = ::dup(::fileno(copy));
  std::fclose(copy);
  std::vector<char> piece(kPieceBytes);
  for (std::uint64_t size = 0;;) {
    const ssize_t count = ::read(input, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(ErrorKind::usage, "cannot be read");
    if (count == 0) return {};
    size += static_cast<std::uint64_t>(count);
    if (size > kMostCopied) {
      return fail(ErrorKind::usage,
                  "FILE: {}: longer than {}, the most that is taken from what is no regular file",
                  path_, format_size(kMostCopied));
    }
    if (::write(descriptor_, piece.data(), static_cast<std::size_t>(count)) != count) {
      return failed(ErrorKind::drive, "cannot be copied to a temporary file");
    }
  }
}

Status RequestFile::for_each(Take take) const {
  std::vector<char> piece(kPieceBytes);
  std::string text;
  Line line{.number = 1};
  for (std::uint64_t offset = 0;;) {
    SLUICE_ASSIGN(const std::size_t count, read_at(offset, piece.data(), piece.size()));
    std::string_view rest(piece.data(), count);
    offset += count;
    do {
      const std::size_t end = rest.find('\n');
      text += rest.substr(0, end);
      if (text.size() > longest_) {
        return fail(ErrorKind::usage,
                    "{}: longer than {}, the most that a request may have at this context (--ctx)",
                    place(line), format_size(longest_));
      }
      if (end == std::string_view::npos && count > 0) break;
      line.bytes = static_cast<std::uint32_t>(text.size());
      line.checksum = store::checksum_of(text);
      if (!is_blank(text)) SLUICE_TRY(take(line, text));
      if (count == 0) return {};
      line.offset += text.size() + 1;
      ++line.number;
      text.clear();
      rest.remove_prefix(end + 1);
    } while (!rest.empty());
  }
}

Result<std::string> RequestFile::read(const Line& line) const {
  std::string text(line.bytes, '\0');
  for (std::size_t done = 0; done < text.size();) {
    SLUICE_ASSIGN(const std::size_t count,
                  read_at(line.offset + done, text.data() + done, text.size() - done));
    if (count == 0) break;
    done += count;
  }
  if (store::checksum_of(text) == line.checksum) return text;
  return fail(ErrorKind::drive, "{}: has changed since it was read first; start again",
              place(line));
}

std::string RequestFile::place(const Line& line) const {
  return fmt::format("{}: line {}", path_, line.number);
}

Result<std::size_t> RequestFile::read_at(std::uint64_t offset, char* to, std::size_t most) const {
  while (true) {
    const ssize_t count = ::pread(descriptor_, to, most, static_cast<off_t>(offset));
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return failed(ErrorKind::usage, "cannot be read");
  }
}

tl::unexpected<Error> RequestFile::failed(ErrorKind kind, std::string_view what) const {
  return fail(kind, "FILE: {}: {}: {}", path_, what, std::generic_category().message(errno));
}

}  // namespace sluice::cli
