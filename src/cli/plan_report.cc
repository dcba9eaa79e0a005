#include "cli/plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/size.h"
#include "cli/words.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::ordered_json;
using engine::Advice;

std::string line(std::string_view name, std::string_view value) {
  return fmt::format("{:<16}{}\n", name, value);
}

std::string speed(double bytes_per_s) { return fmt::format("{:.3g} GB/s", bytes_per_s / 1e9); }

std::string size_of(double bytes) { return format_size(static_cast<std::uint64_t>(bytes)); }

/// "97.1 to 97.9 GiB", or once if both look the same.
std::string range(const std::string& low, const std::string& high) {
  return low == high ? low : low + " to " + high;
}

std::string seconds(const engine::Range& each) {
  return range(duration(each.low), duration(each.high));
}

std::string model_part(const PlanReport& report) {
  std::string text = line(
      "model", report.model + (report.from_config ? " (the config alone; no weights needed)" : ""));
  for (const PlanReport::ClassBytes& each : report.classes) {
    text += line(each.name, fmt::format("{}, {} bytes in {} tensors", format_size(each.bytes),
                                        grouped(each.bytes), grouped(each.tensors)));
  }
  const engine::ModelLoad& load = report.load;
  return text +
         line("a token uses",
              fmt::format("trunk {}, output head {}, experts {}", format_size(load.trunk_bytes),
                          format_size(load.head_bytes), format_size(load.expert_bytes)));
}

std::string machine_part(const PlanReport& report) {
  const engine::MachineSpeeds& speeds = report.speeds;
  std::string text = line(
      "machine", fmt::format("{}: {} threads; memory {}, kernels: bf16 {}, MXFP4 {}, {:.3g} G "
                             "multiply-adds/s",
                             report.machine, report.threads, speed(speeds.memory),
                             speed(speeds.plain), speed(speeds.packed), speeds.operations / 1e9));
  for (const PlanReport::Drive& drive : report.drives) {
    text += line("drive",
                 fmt::format("{}: {} ({})", drive.name, speed(drive.bytes_per_s), drive.source));
  }
  return text;
}

std::string advice_text(const PlanLine& at) {
  const std::string now = duration(at.prediction.seconds.high);
  const std::string then = duration(at.advice.seconds);
  switch (at.advice.change) {
    case Advice::Change::nothing:
      return "nothing alone: twice the drive speed, memory or cores would each gain under 5 %";
    case Advice::Change::drive:
      return fmt::format("drives: twice the speed gives {} a token instead of {}", then, now);
    case Advice::Change::ram:
      return fmt::format("memory: --ram {} gives {} a token instead of {}", as_flag(2 * at.ram),
                         then, now);
    case Advice::Change::memory:
      return fmt::format("memory bandwidth: twice as much gives {} a token instead of {}", then,
                         now);
    case Advice::Change::cores:
      return fmt::format("processor: twice the cores give {} a token instead of {}", then, now);
  }
  return "";
}

std::string detail(const PlanReport& report, const PlanLine& at) {
  std::string text =
      fmt::format("\nwith --ram {}, a context of {} and a prompt of {}:\n", as_flag(at.ram),
                  grouped(report.workload.context), grouped(report.workload.prompt));
  if (!at.fits) return text + line("  does not fit", "too small for this model");
  const engine::Residence& residence = at.residence;
  const engine::Prediction& prediction = at.prediction;
  text += line("  resident", fmt::format("{} of trunk and head; state and buffers {}",
                                         format_size(residence.resident_bytes),
                                         format_size(at.needs.sum() + residence.ring_bytes)));
  if (report.experts > 0) {
    text += line("  cached",
                 fmt::format("{} of {} experts ({}); {:.1f} to {:.1f} % of picks hit",
                             grouped(residence.cached_experts()), grouped(report.experts),
                             format_size(residence.cache_bytes), 100 * prediction.hit_rate.low,
                             100 * prediction.hit_rate.high));
  }
  text += line("  streamed", fmt::format("{} of trunk and head per token, through {}",
                                         format_size(residence.streamed_bytes),
                                         format_size(residence.ring_bytes)));
  const engine::Times& times = prediction.token;
  text +=
      line("  a token",
           fmt::format("reads {}, takes {}; limit: {} (drive {}, memory bandwidth "
                       "{}, arithmetic {})",
                       range(size_of(prediction.bytes.low), size_of(prediction.bytes.high)),
                       seconds(prediction.seconds), name_of(times.limit()), duration(times.drive_s),
                       duration(times.memory_s), duration(times.arithmetic_s)));
  text += line("  first token",
               fmt::format("after {} (weights in place; from a start); limit: {}",
                           seconds(prediction.ttft_s), name_of(prediction.ttft_limit)));
  return text + line("  helps most", advice_text(at));
}

std::string ladder(const PlanReport& report) {
  std::string text =
      fmt::format("\n{:<10}{:>11}{:>10}{:>13}  {:<20}{:<24}{}\n", "--ram", "resident", "experts",
                  "token reads", "seconds per token", "first token", "limit");
  for (const PlanLine& at : report.lines) {
    if (!at.fits) {
      text += fmt::format("{:<10}too small for this model\n", as_flag(at.ram));
      continue;
    }
    const engine::Prediction& prediction = at.prediction;
    text += fmt::format("{:<10}{:>11}{:>10}{:>13}  {:<20}{:<24}{}{}\n", as_flag(at.ram),
                        format_size(at.residence.resident_bytes),
                        grouped(at.residence.cached_experts()), size_of(prediction.bytes.high),
                        seconds(prediction.seconds), seconds(prediction.ttft_s),
                        name_of(prediction.token.limit()), at.is_smallest ? " (least)" : "");
  }
  return text;
}

Json json_of(const engine::Range& each) {
  return {{"low", each.low}, {"middle", (each.low + each.high) / 2}, {"high", each.high}};
}

std::string key_of(Advice::Change change) {
  switch (change) {
    case Advice::Change::nothing:
      return "nothing";
    case Advice::Change::drive:
      return "drive_speed";
    case Advice::Change::ram:
      return "memory_size";
    case Advice::Change::memory:
      return "memory_bandwidth";
    case Advice::Change::cores:
      return "cores";
  }
  return "?";
}

Json json_of(const PlanLine& at) {
  Json out = {{"ram_bytes", at.ram}, {"asked", at.is_asked}, {"fits", at.fits}};
  if (!at.fits) return out;
  const engine::Prediction& prediction = at.prediction;
  out["smallest"] = at.is_smallest;
  out["fixed_bytes"] = at.needs.sum();
  out["ring_bytes"] = at.residence.ring_bytes;
  out["resident_bytes"] = at.residence.resident_bytes;
  out["cached_bytes"] = at.residence.cache_bytes;
  out["cached_experts"] = at.residence.cached_experts();
  out["streamed_bytes"] = at.residence.streamed_bytes;
  out["chunk"] = at.residence.chunk;
  out["expert_hit_rate"] = json_of(prediction.hit_rate);
  out["bytes_per_token"] = json_of(prediction.bytes);
  out["seconds_per_token"] = json_of(prediction.seconds);
  out["limit"] = name_of(prediction.token.limit());
  out["drive_s"] = prediction.token.drive_s;
  out["memory_s"] = prediction.token.memory_s;
  out["arithmetic_s"] = prediction.token.arithmetic_s;
  out["ttft_s"] = json_of(prediction.ttft_s);
  out["ttft_limit"] = name_of(prediction.ttft_limit);
  out["helps_most"] = {{"change", key_of(at.advice.change)},
                       {"seconds_per_token", at.advice.seconds},
                       {"text", advice_text(at)}};
  return out;
}

Json json_of(const PlanReport& report) {
  Json out = {{"model", report.model},
              {"from_config", report.from_config},
              {"architecture", report.architecture},
              {"context", report.workload.context},
              {"prompt", report.workload.prompt}};
  for (const PlanReport::ClassBytes& each : report.classes) {
    out["classes"][each.key] = {{"tensors", each.tensors}, {"bytes", each.bytes}};
  }
  const engine::ModelLoad& load = report.load;
  out["a_token_uses"] = {{"trunk_bytes", load.trunk_bytes},
                         {"head_bytes", load.head_bytes},
                         {"embedding_bytes", load.embedding_bytes},
                         {"expert_bytes", load.expert_bytes}};
  const engine::MachineSpeeds& speeds = report.speeds;
  out["machine"] = {{"name", report.machine},
                    {"threads", report.threads},
                    {"drive_bytes_per_s", speeds.drive},
                    {"memory_bytes_per_s", speeds.memory},
                    {"bf16_bytes_per_s", speeds.plain},
                    {"mxfp4_bytes_per_s", speeds.packed},
                    {"multiply_adds_per_s", speeds.operations}};
  out["drives"] = Json::array();
  for (const PlanReport::Drive& drive : report.drives) {
    out["drives"].push_back(
        {{"name", drive.name}, {"bytes_per_s", drive.bytes_per_s}, {"source", drive.source}});
  }
  out["memory"] = Json::array();
  for (const PlanLine& at : report.lines) out["memory"].push_back(json_of(at));
  return out;
}

}  // namespace

Status write_plan_text(const PlanReport& report, Output& output) {
  std::string text = model_part(report) + machine_part(report);
  for (const PlanLine& at : report.lines) {
    if (at.is_asked) text += detail(report, at);
  }
  text += ladder(report);
  return output.write(text);
}

Status write_plan_json(const PlanReport& report, Output& output) {
  return output.write(dumped(json_of(report)));
}

}  // namespace sluice::cli
