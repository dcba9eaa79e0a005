// The configs of the golden checkpoints.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::model {

inline nlohmann::ordered_json config_of(const std::string& name) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + name +
                   "/checkpoint/config.json");
  return nlohmann::ordered_json::parse(in);
}

}  // namespace sluice::model
