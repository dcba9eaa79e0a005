#include "cli/prompt.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/size.h"
#include "cli/flags.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kLongBytes = std::size_t{256} << 10;  // a check reads files of the model
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : owned_(path != "-"),
        descriptor_(owned_ ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : STDIN_FILENO) {}
  ~OpenFile() {
    if (owned_ && descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  bool owned_;
  int descriptor_;
};

/// What a file has, as far as that is known before it is read.
std::uint64_t regular_size(int descriptor) {
  struct stat status {};
  const bool is_known = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  return is_known ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

void add_prompt_options(CLI::App& app, PromptOptions& options) {
  const std::string group = "Prompt";
  app.add_option("-p,--prompt", options.text, "The text to continue")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("-f,--file", options.file, "A file with the text; -: stdin")
      ->type_name("FILE")
      ->group(group);
  add_ids(app, "--ids", options.ids, "Token ids instead of a text")->group(group);
}

Result<std::string> read_whole(const std::string& path, const std::string& flag, std::size_t most,
                               const SizeCheck& check) {
  const OpenFile file(path);
  if (file.descriptor() < 0) {
    return fail(ErrorKind::usage, "{}: {}: cannot be opened: {}", flag, path,
                std::generic_category().message(errno));
  }
  const auto check_size = [&](std::uint64_t bytes) -> Status {
    if (bytes > most) {
      return fail(ErrorKind::usage, "{}: {}: longer than {}, the most that is read", flag, path,
                  format_size(most));
    }
    return check && bytes > kLongBytes ? check(bytes) : Status{};
  };
  const std::uint64_t known = regular_size(file.descriptor());
  SLUICE_TRY(check_size(known));
  std::string text;
  // Room that is not written to is none: only so a text never moves, and is never there twice.
  text.reserve((known > 0 ? known : most) + kReadBytes);
  while (true) {
    const std::size_t size = text.size();
    text.resize(size + kReadBytes);
    const ssize_t count = ::read(file.descriptor(), text.data() + size, kReadBytes);
    const int error = errno;
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(0, count)));
    if (count == 0) return text;
    if (count < 0 && error != EINTR) {
      return fail(ErrorKind::usage, "{}: {}: cannot be read: {}", flag, path,
                  std::generic_category().message(error));
    }
    SLUICE_TRY(check_size(text.size()));
  }
}

Result<std::string> read_prompt(const PromptOptions& options, const SizeCheck& check) {
  const int sources =
      (options.text ? 1 : 0) + (options.file ? 1 : 0) + (options.ids.empty() ? 0 : 1);
  if (sources != 1) {
    return fail(ErrorKind::usage,
                "{}; give exactly one of -p TEXT, -f FILE (-f - is stdin) and --ids 1,2,3",
                sources == 0 ? "there is no prompt" : "there is more than one prompt");
  }
  if (!options.has_text()) return std::string();
  std::string text;
  if (options.file) {
    SLUICE_ASSIGN(text, read_whole(*options.file, "-f", kMostBytes, check));
  } else {
    text = *options.text;
  }
  if (text.empty()) {
    return fail(ErrorKind::usage,
                "{}: the prompt is empty, and a model can only continue something; give it at "
                "least one character, or one id with --ids",
                options.file ? "-f" : "-p");
  }
  return text;
}

}  // namespace sluice::cli
