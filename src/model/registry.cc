#include "model/registry.h"

#include <algorithm>
#include <array>

#include "model/deepseek.h"
#include "model/fields.h"
#include "model/gemma3.h"
#include "model/gpt_oss.h"
#include "model/kimi.h"
#include "model/llama.h"
#include "store/metadata.h"

namespace sluice::model {
namespace {

struct Entry {
  const char* model_type;
  Result<std::unique_ptr<Architecture>> (*open)(const std::string& config,
                                                const store::Checkpoint& checkpoint,
                                                std::span<const io::FileId> files);
  Result<std::unique_ptr<Architecture>> (*imagine)(const std::string& config,
                                                   const std::filesystem::path& place);
};

constexpr std::array kArchitectures = {
    Entry{"kimi_k3", &open_kimi, &imagine_kimi},
    Entry{"kimi_linear", &open_kimi, &imagine_kimi},
    Entry{"llama", &open_llama, &imagine_llama},
    Entry{"mistral", &open_llama, &imagine_llama},
    Entry{"qwen2", &open_llama, &imagine_llama},
    Entry{"qwen3", &open_llama, &imagine_llama},
    Entry{"mixtral", &open_llama, &imagine_llama},
    Entry{"qwen3_moe", &open_llama, &imagine_llama},
    Entry{"deepseek_v3", &open_deepseek, &imagine_deepseek},
    Entry{"kimi_k2", &open_deepseek, &imagine_deepseek},
    Entry{"gemma3", &open_gemma3, &imagine_gemma3},
    Entry{"gemma3_text", &open_gemma3, &imagine_gemma3},
    Entry{"gpt_oss", &open_gpt_oss, &imagine_gpt_oss},
};

/// The same for GGUF, by general.architecture.
struct GgufEntry {
  const char* architecture;
  Result<std::unique_ptr<Architecture>> (*open)(const store::Checkpoint& checkpoint,
                                                std::span<const io::FileId> files);
};

constexpr std::array kGgufArchitectures = {
    GgufEntry{"llama", &open_llama_gguf},        GgufEntry{"qwen2", &open_llama_gguf},
    GgufEntry{"qwen3", &open_llama_gguf},        GgufEntry{"qwen3moe", &open_llama_gguf},
    GgufEntry{"gpt-oss", &open_gpt_oss_gguf},    GgufEntry{"gemma3", &open_gemma3_gguf},
    GgufEntry{"deepseek2", &open_deepseek_gguf},
};

// The largest config.json in the field is a few hundred KiB.
constexpr std::uint64_t kMostConfigBytes = std::uint64_t{16} << 20;

struct Chosen {
  const Entry* entry;
  std::string config;  ///< text of config.json
};

Result<Chosen> choose(const std::filesystem::path& path) {
  SLUICE_ASSIGN(std::string text, store::read_text(path, kMostConfigBytes));
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, path.string()));
  const auto type = root.find("model_type");
  const std::string name = type != root.end() && type->is_string() ? type->get<std::string>() : "";
  std::string known;
  for (const Entry& entry : kArchitectures) {
    if (name == entry.model_type) return Chosen{&entry, std::move(text)};
    known += fmt::format(" {}", entry.model_type);
  }
  return fail(ErrorKind::model_files, "{}: model_type '{}' is not supported; supported:{}",
              path.string(), name.substr(0, 60), known);
}

Result<std::unique_ptr<Architecture>> open_gguf(const store::Checkpoint& checkpoint,
                                                std::span<const io::FileId> files) {
  SLUICE_ASSIGN(const std::string_view name, checkpoint.metadata()->text("general.architecture"));
  std::string known;
  for (const GgufEntry& entry : kGgufArchitectures) {
    if (name == entry.architecture) return entry.open(checkpoint, files);
    known += fmt::format(" {}", entry.architecture);
  }
  return fail(ErrorKind::model_files,
              "{}: architecture '{}' is not supported; supported in GGUF:{}",
              checkpoint.metadata()->file(), name.substr(0, 60), known);
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_architecture(const store::Checkpoint& checkpoint,
                                                        std::span<const io::FileId> files) {
  if (checkpoint.metadata() != nullptr) return open_gguf(checkpoint, files);
  SLUICE_ASSIGN(const Chosen chosen, choose(checkpoint.folder() / "config.json"));
  return chosen.entry->open(chosen.config, checkpoint, files);
}

Result<std::unique_ptr<Architecture>> imagine_architecture(const std::filesystem::path& config) {
  SLUICE_ASSIGN(const Chosen chosen, choose(config));
  return chosen.entry->imagine(chosen.config, config);
}

}  // namespace sluice::model
