// Kimi K3 and Kimi-Linear: the graph (SPEC 6.1, 14) out of the layer parts.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "io/reader.h"
#include "model/network.h"
#include "store/checkpoint.h"

namespace sluice::model {

/// Opens a checkpoint of the family. `config`: the text of config.json.
Result<std::unique_ptr<Architecture>> open_kimi(const std::string& config,
                                                const store::Checkpoint& checkpoint,
                                                std::span<const io::FileId> files);

/// The same without a checkpoint: sizes and layout as the release has them, for plans. `place` is
/// for messages. A network made of it could read nothing.
Result<std::unique_ptr<Architecture>> imagine_kimi(const std::string& config,
                                                   const std::filesystem::path& place);

}  // namespace sluice::model
