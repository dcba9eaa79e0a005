#include "engine/open_files.h"

#include <utility>

#include "io/mirror_reader.h"
#include "store/pack.h"
#include "store/pack_companions.h"

namespace sluice::engine {

Result<OpenedFiles> open_files(const std::filesystem::path& path,
                               const std::vector<std::filesystem::path>& further,
                               std::unique_ptr<io::Reader>& reader, std::uint64_t most_bounce) {
  SLUICE_ASSIGN(store::Checkpoint checkpoint, store::Checkpoint::open(path, further));
  if (const auto& pack = checkpoint.pack(); pack != nullptr) {
    SLUICE_TRY(store::expect_companions(pack->companions(), checkpoint.folder()));
  }
  std::vector<io::Mirrored> mirrored;
  for (const store::ShardFile& file : checkpoint.files()) {
    if (!file.copies.empty()) mirrored.push_back({file.path, file.copies});
  }
  if (!mirrored.empty()) {
    reader = io::make_mirror_reader(std::move(reader), std::move(mirrored));
  }
  OpenedFiles opened{std::move(checkpoint), {}};
  SLUICE_ASSIGN(opened.ids, store::open_weights(opened.checkpoint, reader, most_bounce));
  return opened;
}

}  // namespace sluice::engine
