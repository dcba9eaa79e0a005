#include "store/pack_companions.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "store/checksum.h"
#include "store/pack.h"

namespace sluice::store {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

constexpr std::string_view kAdvice =
    "copy it again from the checkpoint that was packed, or pack the model again";

Result<std::uint64_t> checksum_of_file(const io::File& file) {
  Checksum sum;
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), kPieceBytes)));
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(file.size() - at, kPieceBytes)));
    SLUICE_TRY(file.read_exact(at, piece));
    sum.add(piece);
  }
  return sum.take();
}

Status check(const PackCompanion& companion, const std::filesystem::path& path) {
  auto opened = io::File::open(path);
  if (!opened) {
    return fail(opened.error().kind, "{}; {}", opened.error().message, kAdvice);
  }
  const io::File& file = *opened;
  if (file.size() != companion.bytes) {
    return fail(ErrorKind::model_files,
                "{}: damaged or changed: expected {} bytes as they were packed, found {}; {}",
                path.string(), companion.bytes, file.size(), kAdvice);
  }
  SLUICE_ASSIGN(const std::uint64_t found, checksum_of_file(file));
  if (found == companion.checksum) return {};
  return fail(ErrorKind::model_files,
              "{}: damaged or changed: expected checksum {:016x}, found {:016x}; {}", path.string(),
              companion.checksum, found, kAdvice);
}

Error as_one(const FaultList& faults, const std::filesystem::path& pack) {
  return faults.to_error(fmt::format("the pack {}", pack.string()));
}

}  // namespace

std::vector<Error> wrong_companions(std::span<const PackCompanion> companions,
                                    const std::filesystem::path& folder) {
  std::vector<Error> errors;
  for (const PackCompanion& companion : companions) {
    Status status = check(companion, folder / companion.name);
    if (!status) errors.push_back(std::move(status).error());
  }
  return errors;
}

Status expect_companions(std::span<const PackCompanion> companions,
                         const std::filesystem::path& folder) {
  FaultList faults;
  for (Error& error : wrong_companions(companions, folder)) faults.add_error(std::move(error));
  if (faults.empty()) return {};
  return tl::unexpected(as_one(faults, folder));
}

Status expect_companions_of(const std::filesystem::path& index) {
  FaultList faults;
  const auto read = read_pack_index(index, faults);
  if (!read) return tl::unexpected(as_one(faults, index));
  return expect_companions(read->companions, index.parent_path());
}

}  // namespace sluice::store
