#include "store/places.h"

#include <algorithm>
#include <system_error>

#include "store/locate.h"

namespace sluice::store {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error) && !error;
}

bool is_known(const Places& places, const fs::path& path) {
  return std::any_of(places.begin(), places.end(),
                     [&](const fs::path& place) { return is_same_file(place, path); });
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

std::vector<fs::path> searchable(const std::vector<fs::path>& asked, FaultList& faults) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : asked) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
      faults.add(folder.string(),
                 "expected a folder to search for weight files, found {}; is its drive mounted?",
                 is_there(folder) ? "something else" : "nothing");
      continue;
    }
    if (!fs::is_directory(folder / "snapshots", error)) {
      folders.push_back(folder);
    } else if (auto snapshot = snapshot_of(folder)) {
      folders.push_back(*std::move(snapshot));
    } else {
      faults.add_error(std::move(snapshot).error());
    }
  }
  return folders;
}

std::vector<Places> find_places(const std::vector<std::string>& files, const fs::path& folder,
                                const std::vector<fs::path>& further,
                                std::vector<std::string>& notes) {
  std::vector<Places> all(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (is_there(folder / files[i])) all[i].push_back(folder / files[i]);
  }
  for (const fs::path& other : further) {
    std::size_t found = 0;
    std::size_t added = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const fs::path path = other / files[i];
      if (!is_there(path)) continue;
      ++found;
      if (is_known(all[i], path)) continue;
      ++added;
      all[i].push_back(path);
    }
    if (added > 0) continue;
    notes.push_back(fmt::format("{}: {}", other.string(),
                                found == 0 ? "holds no weight file of this model"
                                           : "leads to the same files as another folder"));
  }
  return all;
}

}  // namespace sluice::store
