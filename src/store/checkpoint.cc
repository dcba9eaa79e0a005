#include "store/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "store/faults.h"
#include "store/gguf.h"
#include "store/locate.h"
#include "store/pack.h"
#include "store/places.h"
#include "store/shard.h"
#include "store/tensor_table.h"

namespace sluice::store {

class Checkpoint::Directory {
 public:
  std::filesystem::path folder;
  std::vector<ShardFile> files;
  std::vector<std::string> notes;
  TensorTable table;
  std::optional<Metadata> metadata;
  std::uint64_t payload_bytes = 0;
  std::shared_ptr<const Pack> pack;
};

namespace {

using Folders = std::vector<std::filesystem::path>;

void add_missing(const std::string& shard, const ModelFiles& model, const Folders& further,
                 FaultList& faults) {
  std::string searched = model.folder.string();
  for (const auto& folder : further) searched += ", " + folder.string();
  faults.add(shard, "no such file in {}, but {} it; download the file", searched,
             model.index ? model.index_name + " names" : std::string("the set needs"));
}

std::string left_out(const Error& error) {
  return fmt::format("{}; going on without this copy", error.message);
}

/// Reads the first of the places that can be read, and leaves out those before it. Where none can
/// be, what is wrong with each is a fault, and all of them stay.
ShardReader::Outcome read_first(ShardReader& reader, Places& places,
                                std::vector<std::string>& notes, FaultList& faults) {
  std::vector<Error> errors;
  for (const std::filesystem::path& place : places) {
    auto outcome = reader.read(place);
    if (!outcome) {
      errors.push_back(std::move(outcome).error());
      continue;
    }
    for (const Error& error : errors) notes.push_back(left_out(error));
    places.erase(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(errors.size()));
    return *outcome;
  }
  reader.skip(places[0].filename().string());
  for (Error& error : errors) faults.add_error(std::move(error));
  return {};
}

/// Reads every shard and compares its copies, of which it leaves out those that cannot be read: a
/// mirror is there to go on without one of its drives. Returns for each whether all its names are
/// in the table.
std::vector<bool> read_shards(ModelFiles& model, const Folders& further, TensorTable& table,
                              std::vector<ShardFile>& files, FaultList& faults) {
  auto all = find_places(model.shards, model.folder, further, model.notes);
  std::vector<bool> all_names;
  ShardReader reader(table, faults);
  for (std::size_t shard = 0; shard < all.size(); ++shard) {
    Places& places = all[shard];
    if (places.empty()) {
      const std::string& name = model.shards[shard];
      reader.skip(name);
      add_missing(name, model, further, faults);
      files.push_back({.path = model.folder / name});
      all_names.push_back(false);
      continue;
    }
    const auto outcome = read_first(reader, places, model.notes, faults);
    files.push_back({.path = places[0],
                     .copies = {places.begin() + 1, places.end()},
                     .size = outcome.file_bytes});
    all_names.push_back(outcome.all_names);
    std::erase_if(files.back().copies, [&](const std::filesystem::path& copy) {
      const Status compared = reader.compare(copy, places[0], outcome);
      if (!compared) model.notes.push_back(left_out(compared.error()));
      return !compared.has_value();
    });
  }
  return all_names;
}

/// Reads every part of a GGUF model, and the first one's metadata.
Metadata read_gguf(ModelFiles& model, const Folders& further, TensorTable& table,
                   std::vector<ShardFile>& files, FaultList& faults) {
  const auto all = find_places(model.shards, model.folder, further, model.notes);
  GgufReader reader(table, faults);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& shard = model.shards[i];
    if (all[i].empty()) {
      reader.skip(shard);
      add_missing(shard, model, further, faults);
      files.push_back({.path = model.folder / shard});
      continue;
    }
    const GgufReader::Part part = {static_cast<std::uint32_t>(i + 1),
                                   static_cast<std::uint32_t>(all.size())};
    files.push_back({.path = all[i][0], .size = reader.read(all[i][0], part)});
    if (all[i].size() > 1) {
      model.notes.push_back(fmt::format("{}: copies of GGUF files are not read", shard));
    }
  }
  if (faults.empty()) reader.finish();
  return reader.take_metadata();
}

/// Holds the index against the shards, both ways. Shards whose names are not all known are left
/// out: they have their fault already, and it would come again for each of their tensors.
void compare_with_index(Index& index, std::string_view index_name, const TensorTable& table,
                        const std::vector<ShardFile>& files, const std::vector<bool>& all_names,
                        FaultList& faults) {
  std::vector<bool> indexed(table.size());
  TensorTable::Finder finder(table);
  index.for_each([&](std::string_view name, std::uint32_t shard) {
    const auto file_name = [&](std::uint32_t file) { return files[file].path.filename().string(); };
    const auto found = finder.find(name);
    if (!found) {
      if (all_names[shard]) {
        faults.add(index_name,
                   "tensor {} is said to be in {}, which does not hold it; index and "
                   "shards are of different releases, or the shard is damaged: download both again",
                   shown(name), file_name(shard));
      }
      return;
    }
    if (table.file_of(*found) != shard) {
      faults.add(index_name, "tensor {}: expected in {}, found in {}; download the index again",
                 shown(name), file_name(shard), file_name(table.file_of(*found)));
    }
    if (indexed[*found]) faults.add(index_name, "tensor {} is named twice", shown(name));
    indexed[*found] = true;
  });
  for (std::uint32_t tensor = 0; tensor < table.size(); ++tensor) {
    if (indexed[tensor]) continue;
    faults.add(files[table.file_of(tensor)].path.filename().string(),
               "tensor {} is not in {}; index and shards are of different releases: download the "
               "index again",
               shown(table.name(tensor)), index_name);
  }
}

std::uint64_t payload_of(const TensorTable& table) {
  std::uint64_t bytes = 0;
  for (std::uint32_t tensor = 0; tensor < table.size(); ++tensor) {
    bytes += table.tensor(tensor).bytes;
  }
  return bytes;
}

/// Parsing takes and frees buffers many times the size of what is kept.
void return_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.sizes(), ", "));
}

Result<std::unique_ptr<Checkpoint::Directory>> Checkpoint::read_pack(
    const std::filesystem::path& index, const std::vector<std::filesystem::path>& further) {
  FaultList faults;
  auto directory = std::make_unique<Directory>();
  auto files = open_pack(index, further, faults);
  if (files) {
    enter_pack_tensors(files->index, index.string(), directory->table, faults);
    if (directory->table.size() == 0) faults.add(index.string(), "the pack holds no tensors");
  }
  if (!faults.empty()) {
    return tl::unexpected(faults.to_error(fmt::format("the pack {}", index.string())));
  }
  directory->folder = index.has_parent_path() ? index.parent_path() : std::filesystem::path(".");
  directory->payload_bytes = payload_of(directory->table);
  directory->files = files->parts;
  directory->pack = std::make_shared<Pack>(std::move(files->index), std::move(files->parts));
  return directory;
}

Result<std::unique_ptr<Checkpoint::Directory>> Checkpoint::read(
    const std::filesystem::path& path, const std::vector<std::filesystem::path>& asked) {
  if (path.empty()) return fail(ErrorKind::usage, "the name of the model is empty");
  SLUICE_ASSIGN(const auto pack, find_pack_index(path));
  if (pack) return read_pack(*pack, asked);
  FaultList faults;
  const Folders further = searchable(asked, faults);
  auto located = locate(path, further, faults);
  const std::string what = fmt::format("the model {}", path.string());
  if (!located) {
    // A folder that is not there may be why.
    return tl::unexpected(faults.empty() ? std::move(located).error() : faults.to_error(what));
  }
  ModelFiles model = *std::move(located);
  auto directory = std::make_unique<Directory>();
  TensorTable& table = directory->table;
  if (model.index) {
    table.reserve(static_cast<std::uint32_t>(
        std::min<std::uint64_t>(model.index->lines(), TensorTable::kMaxTensors)));
  }
  std::vector<bool> all_names;
  if (model.is_gguf) {
    directory->metadata = read_gguf(model, further, table, directory->files, faults);
  } else {
    all_names = read_shards(model, further, table, directory->files, faults);
  }
  if (model.index) {
    compare_with_index(*model.index, model.index_name, table, directory->files, all_names, faults);
  }
  if (!faults.empty()) return tl::unexpected(faults.to_error(what));
  if (table.size() == 0) {
    return fail(ErrorKind::model_files, "{} cannot be opened: its files hold no tensors", what);
  }
  directory->folder = std::move(model.folder);
  directory->notes = std::move(model.notes);
  directory->payload_bytes = payload_of(table);
  const auto total = model.index ? model.index->total_size() : std::nullopt;
  if (total && *total != directory->payload_bytes) {
    directory->notes.push_back(fmt::format(
        "{}: metadata.total_size is {}, but the tensors have {} bytes; the tensors are right",
        model.index_name, *total, directory->payload_bytes));
  }
  table.shrink();
  return directory;
}

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& path,
                                    const std::vector<std::filesystem::path>& further) {
  try {
    auto directory = read(path, further);
    return_freed_memory();
    if (!directory) return tl::unexpected(std::move(directory).error());
    return Checkpoint(std::move(*directory));
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::memory, "{}: not enough memory to read the model's headers",
                path.string());
  }
}

Checkpoint::Checkpoint(std::unique_ptr<Directory> directory) : directory_(std::move(directory)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

std::optional<Tensor> Checkpoint::find(std::string_view name) const {
  const auto index = directory_->table.find(name);
  if (!index) return std::nullopt;
  Tensor tensor = directory_->table.tensor(*index);
  if (directory_->pack) tensor.rows_together = directory_->pack->rows_together(tensor.offset);
  return tensor;
}

std::uint64_t Checkpoint::tensor_count() const { return directory_->table.size(); }

void Checkpoint::for_each(
    FunctionRef<void(std::string_view name, const Tensor& tensor)> visit) const {
  std::string name;
  for (std::uint32_t index = 0; index < directory_->table.size(); ++index) {
    directory_->table.name(index, name);
    visit(name, directory_->table.tensor(index));
  }
}

const std::vector<ShardFile>& Checkpoint::files() const { return directory_->files; }
const Metadata* Checkpoint::metadata() const {
  return directory_->metadata ? &*directory_->metadata : nullptr;
}
const std::shared_ptr<const Pack>& Checkpoint::pack() const { return directory_->pack; }
const std::filesystem::path& Checkpoint::folder() const { return directory_->folder; }
const std::vector<std::string>& Checkpoint::notes() const { return directory_->notes; }
std::uint64_t Checkpoint::payload_bytes() const { return directory_->payload_bytes; }

std::uint64_t Checkpoint::memory_bytes() const {
  std::uint64_t bytes = sizeof(Directory) + directory_->table.memory_bytes();
  if (directory_->metadata) bytes += directory_->metadata->memory_bytes();
  for (const ShardFile& file : directory_->files) {
    bytes += sizeof(file) + file.path.native().capacity();
    for (const auto& copy : file.copies) bytes += sizeof(copy) + copy.native().capacity();
  }
  for (const std::string& note : directory_->notes) bytes += sizeof(std::string) + note.capacity();
  return bytes;
}

}  // namespace sluice::store
