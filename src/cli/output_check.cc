#include "cli/output_check.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/model_text.h"
#include "store/checkpoint.h"
#include "store/faults.h"
#include "store/pack.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error) && !error;
}

/// Where a model's files lie.
struct ModelPlaces {
  std::vector<fs::path> folders;
  bool only_gguf = false;  // of its folders, which may be anybody's
};

/// What is wrong with a model is not said here: whoever opens it says it better.
fs::path folder_of(const fs::path& model) {
  if (const auto folder = store::folder_of_model(model)) return *folder;
  std::error_code ignored;
  return fs::is_directory(model, ignored) ? model : model.parent_path();
}

ModelPlaces places_of(const ComputeOptions& options) {
  ModelPlaces places;
  const auto text = engine::text_folder(options.model);
  places.only_gguf = text && text->empty();
  places.folders.push_back(folder_of(options.model));
  for (const fs::path& further : options.model_folders) {
    places.folders.push_back(folder_of(further));
  }
  for (const engine::AdapterSource& adapter : options.adapters) {
    places.folders.push_back(adapter.folder);
  }
  if (const auto index = store::find_pack_index(options.model); index && *index) {
    store::FaultList ignored;
    const auto pack = store::read_pack_index(**index, ignored);
    if (pack) {
      places.folders.insert(places.folders.end(), pack->folders.begin(), pack->folders.end());
    }
  }
  return places;
}

/// The folder of the model that holds the file, under this or another name.
std::optional<fs::path> folder_with(const ModelPlaces& places, const fs::path& file) {
  for (const fs::path& folder : places.folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (places.only_gguf && at->path().extension() != ".gguf") continue;
      if (is_same_file(at->path(), file)) return folder;
    }
  }
  return std::nullopt;
}

/// What of the file would be lost, if it must not be.
Status check_against(const AskedOutput& output, const ModelPlaces& places,
                     const std::vector<fs::path>& inputs) {
  std::error_code ignored;
  const bool is_continued = output.is_continued && fs::file_size(output.path, ignored) > 0;
  if (const auto folder = folder_with(places, output.path); folder && !is_continued) {
    return fail(ErrorKind::usage,
                "{}: {}: is a file of the model in {}, and nothing there is written over; give "
                "another name",
                output.flag, output.path.string(), folder->string());
  }
  for (const fs::path& input : inputs) {
    if (!is_same_file(input, output.path)) continue;
    return fail(ErrorKind::usage, "{}: {}: is what this command reads; give another name",
                output.flag, output.path.string());
  }
  const fs::path real = fs::canonical(output.path, ignored);
  for (const fs::path& path : {output.path, real}) {
    if (!store::is_weights_name(path.filename().string())) continue;
    return fail(ErrorKind::usage,
                "{}: {}: has the name of a weight file, and weights are not written over; give "
                "another name, or remove it first",
                output.flag, path.string());
  }
  return {};
}

/// Whether both will be one file. What is no regular file can be written to by many.
bool are_one(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  const auto there = fs::status(one, ignored);
  if (fs::exists(there)) return fs::is_regular_file(there) && is_same_file(one, other);
  return fs::weakly_canonical(one, ignored) == fs::weakly_canonical(other, ignored);
}

}  // namespace

Status check_outputs(const ComputeOptions& options, std::vector<AskedOutput> outputs,
                     std::vector<fs::path> inputs) {
  outputs.push_back({"--trace", options.trace});
  outputs.push_back({"--stats-json", options.stats_json});
  std::erase_if(outputs, [](const AskedOutput& output) { return output.path.empty(); });
  inputs.emplace_back("/dev/stdin");
  std::optional<ModelPlaces> places;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      if (!are_one(outputs[other].path, outputs[i].path)) continue;
      return fail(ErrorKind::usage, "{} and {} must be different files, both are {}",
                  outputs[other].flag, outputs[i].flag, outputs[i].path.string());
    }
    std::error_code ignored;
    if (!fs::is_regular_file(outputs[i].path, ignored)) continue;  // nothing to lose
    if (!places) places = places_of(options);
    SLUICE_TRY(check_against(outputs[i], *places, inputs));
  }
  return {};
}

}  // namespace sluice::cli
