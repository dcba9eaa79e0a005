// The tokens that end an answer, as a container names them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/metadata.h"

namespace sluice::model {

/// Of a config.json: one id or a list of them. What is no id of the vocabulary is a fault.
std::vector<std::int32_t> read_end_ids(const nlohmann::json& config, std::size_t vocabulary,
                                       std::vector<std::string>& faults);

/// Of a GGUF file; likewise.
std::vector<std::int32_t> read_end_ids(const store::Metadata& metadata, std::size_t vocabulary,
                                       std::vector<std::string>& faults);

}  // namespace sluice::model
