#include "engine/pack_read_back.h"

#include <memory>
#include <optional>
#include <utility>

#include "engine/verify.h"
#include "io/make_reader.h"
#include "store/pack.h"

namespace sluice::engine {
namespace {

constexpr std::uint64_t kVerifiedStep = std::uint64_t{4} << 30;  // bytes between notes of it

class ReadBack {
 public:
  ReadBack(const store::PackIndex& index, const std::vector<PackPart>& parts, PackJournal& journal,
           PackOutput& output)
      : index_(index), parts_(parts), journal_(journal), output_(output) {}

  Status run(FunctionRef<void(std::uint64_t)> progress, const Cancellation* cancellation) {
    SLUICE_ASSIGN(auto reader, io::make_reader(io::IoMode::automatic));
    std::vector<store::ShardFile> files;
    std::vector<io::FileId> ids;
    for (const PackPart& part : parts_) {
      SLUICE_ASSIGN(const io::FileId id, reader->open(part.path));
      files.push_back({part.path, {}, part.bytes});
      ids.push_back(id);
    }
    const auto pack = std::make_shared<const store::Pack>(index_, files);
    std::uint64_t noted = pack->block_offset(journal_.blocks_verified);
    const Status walked = verify_stream(
        pack, std::move(reader), ids, journal_.blocks_verified,
        [&](std::size_t block, VerifyFault fault) { keep(block, std::move(fault)); },
        [&](std::size_t block) -> Status {
          if (fault_) return fail(fault_->kind, "{}", fault_->message);  // ends the walk
          const std::uint64_t done = pack->block_offset(block);
          progress(done);
          if (done < noted + kVerifiedStep) return {};
          noted = done;
          return output_.append(record_verified(block));
        },
        cancellation);
    // However the walk ended: what it found must not be lost.
    if (fault_) return give_up();
    SLUICE_TRY(walked);
    return output_.append(record_verified(pack->blocks()));
  }

 private:
  void keep(std::size_t block, VerifyFault fault) {
    if (fault_) return;
    fault_ = std::move(fault);
    bad_block_ = block;
  }

  Status give_up() {
    store::BlockWalk walk(index_);
    while (walk.block() < bad_block_) walk.next();
    SLUICE_TRY(output_.append(record_rewind(walk.block(), walk.first_unit())));
    return fail(ErrorKind::drive,
                "{}; the drive did not give back what was written to it: start the same command "
                "again to write it anew, and use another drive if this comes again",
                fault_->message);
  }

  const store::PackIndex& index_;
  const std::vector<PackPart>& parts_;
  PackJournal& journal_;
  PackOutput& output_;
  std::optional<VerifyFault> fault_;
  std::size_t bad_block_ = 0;
};

}  // namespace

Status read_back(const store::PackIndex& index, const std::vector<PackPart>& parts,
                 PackJournal& journal, PackOutput& output,
                 FunctionRef<void(std::uint64_t)> progress, const Cancellation* cancellation) {
  return ReadBack(index, parts, journal, output).run(progress, cancellation);
}

}  // namespace sluice::engine
