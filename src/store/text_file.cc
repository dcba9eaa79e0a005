#include "store/text_file.h"

#include <simdjson.h>

#include <array>
#include <cstring>
#include <string>

#include "base/size.h"
#include "io/file.h"
#include "store/checkpoint.h"

namespace sluice::store {

static_assert(kTextPadding >= simdjson::SIMDJSON_PADDING);

std::span<std::byte> PaddedText::resize(std::size_t size) {
  if (size + kTextPadding > capacity_) {
    room_.reset();  // before the new room is taken: the two need not be held at once
    capacity_ = 0;
    room_ = std::make_unique_for_overwrite<char[]>(size + kTextPadding);
    capacity_ = size + kTextPadding;
  }
  size_ = size;
  std::memset(room_.get() + size, 0, kTextPadding);
  return std::as_writable_bytes(std::span(room_.get(), size));
}

std::string_view foreign_format(std::string_view start) {
  struct Format {
    std::string_view magic;
    std::string_view what;
  };
  static constexpr std::array<Format, 7> kFormats = {{
      {"version https://git-lfs",
       "is a Git-LFS pointer, not the file itself; run `git lfs pull` in its folder, or download "
       "the file"},
      {"GGUF", "is a GGUF file; give it a name that ends in .gguf, and open it by that name"},
      {"FUGG", "is a GGUF file in big-endian byte order; Sluice reads little-endian ones"},
      {"PK\x03\x04",
       "is a zip archive (a PyTorch checkpoint?); Sluice reads safetensors, so download the "
       "model's safetensors files"},
      {"<!DOCTYPE", "is a web page, not a model file; the download met a login or error page"},
      {"<!doctype", "is a web page, not a model file; the download met a login or error page"},
      {"<html", "is a web page, not a model file; the download met a login or error page"},
  }};
  for (const Format& format : kFormats) {
    if (start.starts_with(format.magic)) return format.what;
  }
  return {};
}

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

Result<PaddedText> read_padded(const std::filesystem::path& path, std::uint64_t limit) {
  SLUICE_ASSIGN(const io::File file, io::File::open(path));
  if (file.size() == 0) {
    return fail(ErrorKind::model_files, "{}: the file is empty; download it again", path.string());
  }
  if (file.size() > limit) {
    return fail(ErrorKind::model_files, "{}: expected at most {} bytes ({}), found {}",
                path.string(), limit, format_size(limit), file.size());
  }
  PaddedText text;
  SLUICE_TRY(file.read_exact(0, text.resize(file.size())));
  if (const auto foreign = foreign_format(text.view()); !foreign.empty()) {
    return fail(ErrorKind::model_files, "{}: {}", path.string(), foreign);
  }
  return text;
}

Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t limit) {
  SLUICE_ASSIGN(const PaddedText text, read_padded(path, limit));
  if (!is_utf8(text.view())) {
    return fail(ErrorKind::model_files,
                "{}: the text is not valid UTF-8; the file is damaged, download it again",
                path.string());
  }
  return std::string(text.view());
}

}  // namespace sluice::store
