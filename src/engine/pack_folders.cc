#include "engine/pack_folders.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "engine/pack_output.h"
#include "io/file.h"
#include "store/checksum.h"
#include "store/faults.h"
#include "store/pack_companions.h"
#include "store/places.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

// A tokenizer has some 20 MB; what is larger is no small file.
constexpr std::uint64_t kMostSmallFile = std::uint64_t{64} << 20;

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, rest] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end() || (std::next(in_folder) == folder.end() && in_folder->empty());
}

Result<std::vector<std::byte>> read_all(const fs::path& path, std::uint64_t limit) {
  SLUICE_ASSIGN(const io::File file, io::File::open(path));
  if (file.size() > limit) {
    return fail(ErrorKind::model_files, "{}: expected at most {} bytes, found {}", path.string(),
                limit, file.size());
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
  SLUICE_TRY(file.read_exact(0, bytes));
  return bytes;
}

/// Where the folders will be: none in the model's, twice or a file's name. Nothing is made yet.
Result<std::vector<fs::path>> places_of(const std::vector<fs::path>& folders,
                                        const fs::path& model_folder) {
  std::error_code error;
  const fs::path model = fs::weakly_canonical(model_folder, error);
  std::vector<fs::path> places;
  for (const fs::path& folder : folders) {
    fs::path place = fs::weakly_canonical(fs::absolute(folder), error);
    if (place.filename().empty()) place = place.parent_path();
    if (lies_in(place, model)) {
      return fail(ErrorKind::usage,
                  "{}: the folder lies in that of the model; a pack needs a folder of its own",
                  folder.string());
    }
    if (std::ranges::find(places, place) != places.end()) {
      return fail(ErrorKind::usage, "{}: the folder is given twice", folder.string());
    }
    if (std::ranges::any_of(places, [&](const fs::path& other) {
          return lies_in(place, other) || lies_in(other, place);
        })) {
      return fail(ErrorKind::usage, "{}: lies in another --out, or that in it; give one beside it",
                  folder.string());
    }
    std::error_code ignored;
    if (fs::exists(place, ignored) && !fs::is_directory(place, ignored)) {
      return fail(ErrorKind::usage, "{}: is there and is no folder; give another name",
                  folder.string());
    }
    places.push_back(std::move(place));
  }
  return places;
}

/// `name`: as the user gave it.
Status make_folder(const fs::path& place, const fs::path& name) {
  std::error_code error;
  fs::create_directories(place, error);
  if (!error) return {};
  return fail(io::kind_of_refused_place(error.value()), "{}: the folder cannot be made: {}",
              name.string(), error.message());
}

}  // namespace

Result<std::vector<fs::path>> make_pack_folders(const std::vector<fs::path>& folders,
                                                const fs::path& model_folder) {
  SLUICE_ASSIGN(std::vector<fs::path> places, places_of(folders, model_folder));
  for (std::size_t i = 0; i < places.size(); ++i) {
    SLUICE_TRY(make_folder(places[i], folders[i]));
  }
  return places;
}

Status expect_empty(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      // A drive's own folder, and the trace of a start that ended before anything was begun.
      if (name == "lost+found" || name == std::string(store::kPackJournalName) + ".part") continue;
      return fail(
          ErrorKind::usage,
          "{}: the folder holds {} and is not a pack that this command began; give a new or "
          "an empty folder",
          folder.string(), store::shown(name));
    }
    if (error) {
      return fail(ErrorKind::drive, "{}: the folder cannot be read: {}", folder.string(),
                  error.message());
    }
  }
  return {};
}

Result<std::optional<PackJournal>> read_journal(const fs::path& folder) {
  const fs::path path = folder / store::kPackJournalName;
  if (!store::is_there(path)) return std::optional<PackJournal>();
  SLUICE_ASSIGN(const std::vector<std::byte> bytes, read_all(path, store::kMostPackIndexBytes));
  SLUICE_ASSIGN(PackJournal journal, decode_journal(bytes, path));
  return std::optional(std::move(journal));
}

Result<std::optional<store::PackIndex>> read_finished(const fs::path& folder) {
  const fs::path path = folder / store::kPackIndexName;
  if (!store::is_there(path)) return std::optional<store::PackIndex>();
  SLUICE_ASSIGN(const std::vector<std::byte> bytes, read_all(path, store::kMostPackIndexBytes));
  store::FaultList faults;
  auto index = store::decode_pack_index(bytes, path.string(), faults);
  if (!index) return tl::unexpected(faults.to_error(fmt::format("the pack {}", folder.string())));
  return index;
}

Result<std::vector<store::PackCompanion>> find_companions(const fs::path& folder) {
  std::vector<store::PackCompanion> companions;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (!store::is_companion_name(name) || name.ends_with(".part") ||
        !fs::is_regular_file(at->path(), ignored) ||
        fs::file_size(at->path(), ignored) > kMostSmallFile) {
      continue;
    }
    SLUICE_ASSIGN(const std::vector<std::byte> bytes, read_all(at->path(), kMostSmallFile));
    companions.push_back({name, bytes.size(), store::checksum_of(bytes)});
  }
  if (error) {
    return fail(ErrorKind::drive, "{}: the folder cannot be read: {}", folder.string(),
                error.message());
  }
  std::ranges::sort(companions, {}, &store::PackCompanion::name);
  return companions;
}

Status copy_companions(const std::vector<store::PackCompanion>& companions, const fs::path& from,
                       const fs::path& to) {
  for (const store::PackCompanion& companion : companions) {
    SLUICE_ASSIGN(const std::vector<std::byte> bytes,
                  read_all(from / companion.name, kMostSmallFile));
    SLUICE_TRY(write_for_good(to / companion.name, bytes));
  }
  return store::expect_companions(companions, to);
}

}  // namespace sluice::engine
