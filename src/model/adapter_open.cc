// Matching an adapter's files with a model.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "model/adapter.h"
#include "model/adapter_config.h"
#include "store/checkpoint.h"
#include "store/faults.h"

namespace sluice::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigName = "adapter_config.json";
constexpr const char* kWeightsName = "adapter_model.safetensors";
constexpr std::uint64_t kMostText = std::uint64_t{1} << 20;

// What PEFT calls tensors: kRoot, the module, and one of these.
constexpr std::string_view kRoot = "base_model.model.";
constexpr std::string_view kEndA = ".lora_A.weight";
constexpr std::string_view kEndB = ".lora_B.weight";
constexpr std::string_view kWeight = ".weight";

/// Why a module of this name has no place for an adapter.
std::string_view refusal_of(std::string_view module, bool exists) {
  if (module.find(".experts.") != std::string_view::npos) {
    return "adapters on routed experts are not supported";
  }
  if (module.ends_with("embed_tokens") || module.ends_with("lm_head")) {
    return "adapters on the embedding and the output head are not supported";
  }
  if (module.ends_with("kv_b_proj")) {
    return "adapters on kv_b_proj are not supported: it is absorbed into the attention and never "
           "multiplied as a whole";
  }
  return exists ? "adapters are supported on the projections of attention and feed-forward "
                  "networks only"
                : "the model has no such projection; the adapter is of another model";
}

/// The tensors of one module.
struct Found {
  std::optional<store::Tensor> a, b;
};

class Matcher {
 public:
  Matcher(const fs::path& folder, const Blueprint& model) : model_(model) {
    layout_.folder = folder;
  }

  /// Reads the configuration and the header; what cannot be read is a fault.
  void read(const fs::path& folder, store::FaultList& faults) {
    std::vector<std::string> said;
    const auto text = store::read_text(folder / kConfigName, kMostText);
    if (!text) {
      faults.add_error(text.error());
    } else if (auto config = parse_adapter_config(*text, said)) {
      config_ = std::move(*config);
    } else {
      faults.add_error(config.error());
    }
    for (std::string& line : said) {
      faults.add_error({ErrorKind::model_files, std::move(line)});
    }
    is_understood_ = faults.empty();
    std::error_code ignored;
    const fs::file_status status = fs::status(folder / kWeightsName, ignored);
    if (!fs::is_regular_file(status)) {
      faults.add(kWeightsName, "{} in {}; an adapter's weights are expected in it",
                 fs::exists(status) ? "not a regular file" : "no such file", folder.string());
      return;
    }
    auto checkpoint = store::Checkpoint::open(folder / kWeightsName);
    if (!checkpoint) return faults.add_error(checkpoint.error());
    sort_tensors(*checkpoint, faults);
    file_ = checkpoint->files().front().path;
    is_read_ = checkpoint->files().size() == 1;
    if (!is_read_) faults.add(kWeightsName, "is one of several files; one is expected");
  }

  void match(store::FaultList& faults) {
    if (!is_read_) return;
    std::map<std::string_view, const Matrix*> projections;
    for (const Matrix& each : model_.projections) projections.emplace(module_of(each), &each);
    for (const auto& [module, found] : modules_) {
      const auto projection = projections.find(module);
      if (projection == projections.end()) {
        refuse(module, faults);
      } else if (is_understood_) {
        add(module, found, *projection->second, faults);
      }
    }
    if (is_understood_) check_targets(projections, faults);
    if (modules_.empty()) faults.add(kWeightsName, "has no tensors of an adapter");
  }

  /// All tensors are used, and a file has nothing between them: they are one extent.
  Result<AdapterLayout> finish(io::Reader& reader) {
    SLUICE_ASSIGN(layout_.extent.file, reader.open(file_));
    layout_.extent.offset = first_;
    layout_.extent.length = end_ - first_;
    for (AdapterLayout::Pair& pair : layout_.pairs) {
      pair.a.offset -= first_;
      pair.b.offset -= first_;
    }
    return std::move(layout_);
  }

 private:
  std::string_view module_of(const Matrix& matrix) const {
    std::string_view name = model_.blocks.matrices[matrix.id].name;
    if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
    return name;
  }

  void sort_tensors(const store::Checkpoint& checkpoint, store::FaultList& faults) {
    first_ = ~std::uint64_t{0};
    checkpoint.for_each([&](std::string_view name, const store::Tensor& tensor) {
      first_ = std::min(first_, tensor.offset);
      end_ = std::max(end_, tensor.offset + tensor.bytes);
      const bool is_a = name.ends_with(kEndA);
      if (!name.starts_with(kRoot) || (!is_a && !name.ends_with(kEndB)) ||
          name.size() <= kRoot.size() + kEndA.size()) {
        return faults.add(kWeightsName,
                          "tensor {}: not supported; expected {}MODULE{} and {} alone",
                          store::shown(name), kRoot, kEndA, kEndB);
      }
      const std::string_view module =
          name.substr(kRoot.size(), name.size() - kRoot.size() - kEndA.size());
      Found& found = modules_[std::string(module)];
      (is_a ? found.a : found.b) = tensor;
    });
  }

  void refuse(std::string_view module, store::FaultList& faults) const {
    const std::string name = std::string(module) + std::string(kWeight);
    const bool exists = std::ranges::any_of(
        model_.blocks.matrices, [&](const auto& matrix) { return matrix.name == name; });
    faults.add(kWeightsName, "module {}: {}", store::shown(module), refusal_of(module, exists));
  }

  void add(std::string_view module, const Found& found, const Matrix& matrix,
           store::FaultList& faults) {
    AdapterLayout::Pair pair;
    pair.rows = matrix.rows;
    pair.columns = matrix.columns;
    pair.rank = config_.rank_of(module);
    pair.scale = config_.scale_of(module);
    const bool a = check(module, kEndA, found.a, pair.rank, pair.columns, pair.a, faults);
    const bool b = check(module, kEndB, found.b, pair.rows, pair.rank, pair.b, faults);
    if (!a || !b) return;
    if (layout_.pair_of.size() <= matrix.id) layout_.pair_of.resize(matrix.id + 1, -1);
    layout_.pair_of[matrix.id] = static_cast<std::int32_t>(layout_.pairs.size());
    layout_.rank = std::max(layout_.rank, pair.rank);
    layout_.pairs.push_back(pair);
  }

  static bool check(std::string_view module, std::string_view end,
                    const std::optional<store::Tensor>& tensor, std::size_t rows,
                    std::size_t columns, AdapterLayout::Piece& piece, store::FaultList& faults) {
    const std::string name = fmt::format("{}{}{}", kRoot, module, end);
    if (!tensor) {
      faults.add(kWeightsName, "tensor {}: missing; the adapter is incomplete", store::shown(name));
      return false;
    }
    const auto format = plain_format_of(tensor->dtype);
    if (!format) {
      faults.add(kWeightsName, "tensor {}: type {} where F32, F16 or BF16 is expected",
                 store::shown(name), name_of(tensor->dtype));
      return false;
    }
    const std::array<std::uint64_t, 2> expected = {rows, columns};
    if (!std::ranges::equal(tensor->shape.sizes(), expected)) {
      faults.add(kWeightsName, "tensor {}: shape {}, but the model and {} make it [{}, {}]",
                 store::shown(name), store::to_string(tensor->shape), kConfigName, rows, columns);
      return false;
    }
    piece = {tensor->offset, *format};
    return true;
  }

  /// The tensors against what the configuration says they are of.
  void check_targets(const std::map<std::string_view, const Matrix*>& projections,
                     store::FaultList& faults) const {
    if (config_.targets.empty()) return;
    for (const auto& [module, found] : modules_) {
      if (!config_.is_target(module)) {
        faults.add(kWeightsName, "module {}: target_modules of {} does not name it",
                   store::shown(module), kConfigName);
      }
    }
    for (const std::string& target : config_.targets) {
      const bool is_met = std::ranges::any_of(
          modules_, [&](const auto& each) { return names_module(target, each.first); });
      if (!is_met) {
        faults.add(kConfigName, "target_modules: {}: {} has nothing of it", store::shown(target),
                   kWeightsName);
      }
    }
    for (const auto& [module, matrix] : projections) {
      if (!config_.targets_all || modules_.contains(module) || !config_.is_target(module)) continue;
      faults.add(kWeightsName, "module {}: its tensors are missing; the adapter is incomplete",
                 store::shown(module));
    }
  }

  const Blueprint& model_;
  AdapterLayout layout_;
  AdapterConfig config_;
  fs::path file_;
  std::map<std::string, Found, std::less<>> modules_;
  std::uint64_t first_ = 0;  // of the tensors, in the file
  std::uint64_t end_ = 0;
  bool is_understood_ = false;  // the configuration
  bool is_read_ = false;        // the header
};

}  // namespace

Result<AdapterLayout> open_adapter(const fs::path& folder, const Blueprint& model,
                                   io::Reader& reader) {
  store::FaultList faults;
  Matcher matcher(folder, model);
  matcher.read(folder, faults);
  matcher.match(faults);
  if (!faults.empty()) {
    return tl::unexpected(faults.to_error(fmt::format("the adapter {}", folder.string())));
  }
  return matcher.finish(reader);
}

}  // namespace sluice::model
