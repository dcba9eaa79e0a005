// What `sluice plan` has to say, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"
#include "engine/fit.h"
#include "engine/plan.h"

namespace sluice::cli {

/// One memory size of the plan.
struct PlanLine {
  std::uint64_t ram = 0;
  bool is_asked = false;     ///< by --ram, or what the machine has
  bool is_smallest = false;  ///< less does not work
  bool fits = false;
  // The rest only if it fits.
  engine::FixedNeeds needs;
  engine::Residence residence;
  engine::Prediction prediction;
  engine::Advice advice;
};

struct PlanReport {
  std::string model;
  bool from_config = false;  ///< no weight file was looked at
  std::string architecture;
  struct ClassBytes {
    std::string key;   ///< for JSON
    std::string name;  ///< for people
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<ClassBytes> classes;  ///< those that have tensors
  std::uint64_t experts = 0;        ///< of all layers
  engine::ModelLoad load;
  engine::Workload workload;
  std::string machine;  ///< where the speeds come from: "this machine, measured" or a profile
  int threads = 1;
  engine::MachineSpeeds speeds;
  struct Drive {
    std::string name;
    double bytes_per_s = 0;
    std::string source;  ///< "measured", "given", "profile", "assumed"
  };
  std::vector<Drive> drives;
  std::vector<PlanLine> lines;  ///< by memory size
};

Status write_plan_text(const PlanReport& report, Output& output);
Status write_plan_json(const PlanReport& report, Output& output);

}  // namespace sluice::cli
