#include "text/small_file.h"

#include <fstream>
#include <system_error>

#include "base/size.h"

namespace sluice::text {

Result<std::string> read_small_file(const std::filesystem::path& path, std::uint64_t limit) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    std::error_code ignored;
    return fail(ErrorKind::model_files, "{}: {}", path.native(),
                std::filesystem::is_symlink(path, ignored)
                    ? "the symbolic link leads to no file; download the file again"
                    : "no such file; a model's folder has it beside the weights");
  }
  if (!std::filesystem::is_regular_file(status)) {
    return fail(ErrorKind::model_files, "{}: not a regular file{}{}", path.native(),
                error ? ": " : "", error ? error.message() : "");
  }
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) return fail(ErrorKind::model_files, "{}: {}", path.native(), error.message());
  if (size > limit) {
    return fail(ErrorKind::model_files, "{}: {} large; at most {} are accepted", path.native(),
                format_size(size), format_size(limit));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (size > 0) file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file) return fail(ErrorKind::model_files, "{}: cannot be read", path.native());
  return text;
}

}  // namespace sluice::text
