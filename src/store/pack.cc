#include "store/pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/size.h"
#include "io/file.h"
#include "store/checksum.h"
#include "store/pack_reader.h"
#include "store/places.h"

namespace sluice::store {
namespace {

namespace fs = std::filesystem;

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool holds_only_a_part(const fs::path& folder) {
  bool part = false;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.find(".safetensors") != std::string::npos) return false;
    part = part || (name.starts_with("sluice-pack-") && name.ends_with(".data"));
  }
  return part;
}

}  // namespace

Pack::Pack(PackIndex index, std::vector<ShardFile> parts)
    : identity_(index.identity),
      stripes_(index.chunk_bytes, index.deal, parts.size()),
      parts_(std::move(parts)),
      stream_bytes_(0) {
  blocks_.reserve(index.blocks.size());
  for (BlockWalk walk(index); !walk.done(); walk.next()) {
    const PackBlock& from = index.blocks[walk.block()];
    std::uint32_t name = kNoName;
    if (from.tensors == 1) {
      name = static_cast<std::uint32_t>(names_.size());
      names_.push_back(index.tensors[walk.first_tensor()]);
    }
    const BlockSpan span = walk.span();
    blocks_.push_back({span, walk.first_unit(), from.layer, from.expert, from.unit_rows, name});
    stream_bytes_ = round_up(span.offset + span.bytes, kPackAlignment);
  }
  patterns_ = std::move(index.patterns);
  checksums_ = std::move(index.checksums);
  companions_ = std::move(index.companions);
}

std::uint64_t Pack::block_offset(std::size_t block) const {
  return block < blocks_.size() ? blocks_[block].span.offset : stream_bytes_;
}

void Pack::for_each_piece(std::uint64_t offset, std::uint64_t length,
                          FunctionRef<void(std::uint64_t at, const PartExtent&)> visit) const {
  stripes_.for_each(offset, length, [&](std::uint64_t at, PartExtent piece) {
    piece.offset += kPartHeaderBytes;
    visit(at, piece);
  });
}

/// The last block that begins at or before `offset`; blocks() when there is none.
std::size_t Pack::block_at(std::uint64_t offset) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                       [](std::uint64_t at, const Block& block) { return at < block.span.offset; });
  if (after == blocks_.begin()) return blocks_.size();
  // Blocks of no bytes share their offset with the next one, which is the one that is meant.
  return static_cast<std::size_t>(after - blocks_.begin()) - 1;
}

Pack::Range Pack::whole_units(Range range) const {
  const auto rounded = [&](std::uint64_t at, bool up) {
    const std::size_t index = block_at(at);
    if (index == blocks_.size()) return at;
    const BlockSpan& span = blocks_[index].span;
    if (at - span.offset >= span.bytes) return at;
    const std::uint64_t unit = (at - span.offset) / span.unit_bytes;
    const std::uint64_t begin = span.offset + unit * span.unit_bytes;
    if (!up || begin == at) return begin;
    return std::min(begin + span.unit_bytes, span.offset + span.bytes);
  };
  if (range.begin >= range.end) return range;
  return {rounded(range.begin, false), rounded(range.end, true)};
}

void Pack::check(std::uint64_t offset, std::span<const std::byte> bytes,
                 FunctionRef<void(PackFault)> visit) const {
  const std::uint64_t end = offset + bytes.size();
  std::size_t index = std::min(block_at(offset), blocks_.size());
  if (index == blocks_.size()) index = 0;
  for (std::uint64_t at = offset; at < end;) {
    while (index + 1 < blocks_.size() && blocks_[index + 1].span.offset <= at) ++index;
    const Block& block = blocks_[index];
    const auto rest = bytes.subspan(static_cast<std::size_t>(at - offset));
    if (at - block.span.offset < block.span.bytes) {
      const std::uint64_t unit = (at - block.span.offset) / block.span.unit_bytes;
      const std::uint64_t begin = block.span.offset + unit * block.span.unit_bytes;
      const std::uint64_t length =
          std::min(block.span.unit_bytes, block.span.offset + block.span.bytes - begin);
      SLUICE_CHECK(begin == at && length <= rest.size());
      const std::uint64_t found = checksum_of(rest.first(static_cast<std::size_t>(length)));
      if (found != checksums_[block.first_unit + unit]) visit(unit_fault(block, unit, found));
      at += length;
    } else {
      const std::uint64_t gap_end = std::min(end, block_offset(index + 1));
      SLUICE_CHECK(gap_end > at);
      if (!all_zero(rest.first(static_cast<std::size_t>(gap_end - at)))) {
        visit({at, gap_end - at,
               fmt::format("{} between two blocks are not all zero as they were written",
                           place(at, gap_end - at))});
      }
      at = gap_end;
    }
  }
}

std::string Pack::place(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text;
  std::size_t more = 0;
  for_each_piece(offset, bytes, [&](std::uint64_t, const PartExtent& piece) {
    if (!text.empty()) {
      ++more;
      return;
    }
    text = fmt::format("{}: {} bytes from offset {} on", parts_[piece.part].path.string(), bytes,
                       piece.offset);
  });
  if (more > 0) text += fmt::format(" and in {} more pieces dealt to the pack's other files", more);
  return text;
}

std::string Pack::name_of(const Block& block, std::uint64_t unit) const {
  if (block.expert >= 0) return fmt::format("layer {}, expert {}", block.layer, block.expert);
  if (block.name == kNoName) return fmt::format("layer {}", block.layer);
  const PackTensor& tensor = names_[block.name];
  std::string name;
  NameParts::join(patterns_[tensor.pattern], tensor.numbers, name);
  name = fmt::format("tensor {}", shown(name));
  if (block.unit_rows > 0 && block.span.units() > 1) {
    const std::uint64_t row_bytes = block.span.unit_bytes / block.unit_rows;
    const std::uint64_t rows = block.span.bytes / row_bytes;
    const std::uint64_t first = unit * block.unit_rows;
    const std::uint64_t last = std::min<std::uint64_t>(first + block.unit_rows, rows) - 1;
    name += first == last ? fmt::format(", row {}", first)
                          : fmt::format(", rows {} to {}", first, last);
  }
  return name;
}

PackFault Pack::unit_fault(const Block& block, std::uint64_t unit, std::uint64_t found) const {
  const std::uint64_t begin = block.span.offset + unit * block.span.unit_bytes;
  const std::uint64_t length =
      std::min(block.span.unit_bytes, block.span.offset + block.span.bytes - begin);
  return {begin, length,
          fmt::format("{} ({}) are damaged: expected checksum {:016x}, found {:016x}",
                      place(begin, length), name_of(block, unit),
                      checksums_[block.first_unit + unit], found)};
}

std::uint64_t Pack::rows_together(std::uint64_t offset) const {
  const std::size_t index = block_at(offset);
  if (index == blocks_.size()) return 1;
  const Block& block = blocks_[index];
  if (block.span.offset != offset || block.name == kNoName) return 1;
  return block.unit_rows > 0 ? block.unit_rows : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t Pack::memory_bytes() const {
  std::uint64_t bytes = sizeof(*this) + blocks_.capacity() * sizeof(Block) +
                        checksums_.capacity() * sizeof(std::uint64_t) +
                        names_.capacity() * sizeof(PackTensor);
  for (const std::string& each : patterns_) bytes += sizeof(std::string) + each.capacity();
  for (const PackCompanion& each : companions_) bytes += sizeof(each) + each.name.capacity();
  return bytes;
}

Result<std::optional<fs::path>> find_pack_index(const fs::path& path) {
  const bool is_index = path.filename() == kPackIndexName;
  const fs::path index = is_index ? path : path / kPackIndexName;
  if (is_there(index)) return std::optional(index);
  const fs::path folder = is_index ? path.parent_path() : path;
  if (is_there(folder / kPackJournalName)) {
    return fail(ErrorKind::model_files,
                "{}: this pack is not finished; start the same sluice pack command again, and it "
                "goes on where it was",
                folder.string());
  }
  if (holds_only_a_part(folder)) {
    return fail(ErrorKind::model_files,
                "{}: the folder holds a part of a pack; the model is the folder with {}, the first "
                "--out of sluice pack",
                folder.string(), kPackIndexName);
  }
  return std::optional<fs::path>();
}

std::optional<PackIndex> read_pack_index(const fs::path& path, FaultList& faults) {
  auto file = io::File::open(path);
  if (!file) {
    faults.add_error(std::move(file).error());
    return std::nullopt;
  }
  if (file->size() > kMostPackIndexBytes) {
    faults.add(path.string(), "expected at most {} bytes, found {}", kMostPackIndexBytes,
               file->size());
    return std::nullopt;
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(file->size()));
  if (const Status read = file->read_exact(0, bytes); !read) {
    faults.add_error(read.error());
    return std::nullopt;
  }
  return decode_pack_index(bytes, path.string(), faults);
}

namespace {

/// Whether the file is the part that it should be; what is wrong with it goes to `faults`.
bool is_part(const fs::path& path, std::span<const std::byte> header, std::uint64_t bytes,
             FaultList& faults) {
  const auto file = io::File::open(path);
  if (!file) {
    faults.add_error(file.error());
    return false;
  }
  if (file->size() != bytes) {
    faults.add(path.string(),
               "expected {} bytes by the pack's index, found {}; copy the file "
               "again, or pack the model again",
               bytes, file->size());
    return false;
  }
  std::array<std::byte, kPartHeaderBytes> found;
  if (const Status read = file->read_exact(0, found); !read) {
    faults.add_error(read.error());
    return false;
  }
  if (std::memcmp(found.data(), header.data(), header.size()) == 0) return true;
  faults.add(path.string(),
             "its first {} bytes are not those of this part of this pack: it belongs "
             "to another pack, or it is damaged",
             header.size());
  return false;
}

}  // namespace

std::optional<PackFiles> open_pack(const fs::path& index_path,
                                   std::span<const fs::path> more_folders, FaultList& faults) {
  auto index = read_pack_index(index_path, faults);
  if (!index) return std::nullopt;
  PackFiles files;
  const Stripes stripes(index->chunk_bytes, index->deal, index->folders.size());
  const std::uint64_t stream = stream_bytes(*index);
  const fs::path beside = index_path.has_parent_path() ? index_path.parent_path() : fs::path(".");
  for (std::size_t part = 0; part < index->folders.size(); ++part) {
    const std::string name = pack_part_name(part, index->folders.size());
    // What the user says comes first, then what lies beside the index: that was moved with it.
    std::vector<fs::path> folders(more_folders.begin(), more_folders.end());
    folders.push_back(beside);
    folders.emplace_back(index->folders[part]);
    const auto found = std::ranges::find_if(
        folders, [&](const fs::path& folder) { return is_there(folder / name); });
    if (found == folders.end()) {
      faults.add(name,
                 "no such file in {}, where it was written, nor beside the index; put it "
                 "there, or give its folder with --model-dir",
                 shown(index->folders[part]));
      continue;
    }
    const std::uint64_t data = stripes.part_bytes(part, stream);
    const auto header = part_header(index->identity, part, index->folders.size(), data);
    const fs::path path = *found / name;
    is_part(path, header, kPartHeaderBytes + data, faults);
    files.parts.push_back({path, {}, kPartHeaderBytes + data});
  }
  if (!faults.empty()) return std::nullopt;
  files.index = std::move(*index);
  return files;
}

Result<std::vector<io::FileId>> open_weights(const Checkpoint& checkpoint,
                                             std::unique_ptr<io::Reader>& reader,
                                             std::uint64_t most_bounce) {
  std::vector<io::FileId> files;
  for (const ShardFile& file : checkpoint.files()) {
    SLUICE_ASSIGN(const io::FileId id, reader->open(file.path));
    files.push_back(id);
  }
  const auto& pack = checkpoint.pack();
  if (pack == nullptr) return files;
  reader = make_pack_reader(std::move(reader), pack, std::move(files), PackCheck::on, most_bounce);
  return std::vector<io::FileId>{kPackStream};
}

}  // namespace sluice::store
