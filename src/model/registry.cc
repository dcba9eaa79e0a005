#include "model/registry.h"

#include <algorithm>
#include <array>

#include "model/fields.h"
#include "model/kimi.h"

namespace sluice::model {
namespace {

struct Entry {
  const char* model_type;
  Result<std::unique_ptr<Architecture>> (*open)(const std::string& config,
                                                const store::Checkpoint& checkpoint,
                                                std::span<const io::FileId> files);
};

constexpr std::array kArchitectures = {
    Entry{"kimi_k3", &open_kimi},
    Entry{"kimi_linear", &open_kimi},
};

// The largest config.json in the field is a few hundred KiB.
constexpr std::uint64_t kMostConfigBytes = std::uint64_t{16} << 20;

}  // namespace

Result<std::unique_ptr<Architecture>> open_architecture(const store::Checkpoint& checkpoint,
                                                        std::span<const io::FileId> files) {
  const auto path = checkpoint.folder() / "config.json";
  SLUICE_ASSIGN(const std::string text, store::read_text(path, kMostConfigBytes));
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, path.string()));
  const auto type = root.find("model_type");
  const std::string name = type != root.end() && type->is_string() ? type->get<std::string>() : "";
  for (const Entry& entry : kArchitectures) {
    if (name == entry.model_type) return entry.open(text, checkpoint, files);
  }
  std::string known;
  for (const Entry& entry : kArchitectures) known += fmt::format(" {}", entry.model_type);
  return fail(ErrorKind::model_files, "{}: model_type '{}' is not supported; supported:{}",
              path.string(), name.substr(0, 60), known);
}

}  // namespace sluice::model
