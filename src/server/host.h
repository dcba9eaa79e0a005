// A model ready to answer: its files, its engine, and the thread that uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/options.h"
#include "server/drive_limits.h"
#include "server/metrics.h"
#include "server/served_model.h"
#include "server/worker.h"

namespace sluice::server {

struct HostOptions {
  engine::EngineOptions engine;  ///< reserve, saved_states and identify are the host's
  std::string name;              ///< of the model; empty: its folder's or GGUF file's
  std::size_t queue = 16;        ///< tasks that may wait
  /// Bytes for conversations that may go on. Default: a sixteenth of the memory.
  std::optional<std::uint64_t> saved_states;
  std::filesystem::path state_folder = {};  ///< for conversations on disk; empty: there are none
  /// Bytes for these. Default: 16 GiB, or a tenth of what is free there if that is less.
  std::optional<std::uint64_t> state_disk;
  /// Bytes per second, on average, that may be written there.
  std::uint64_t state_write = std::uint64_t{10} << 20;
  /// Between two copies of the state of a prompt that is being read.
  std::chrono::milliseconds part_interval = std::chrono::seconds(10);
  std::vector<DriveLimit> drive_limits = {};  ///< where they were measured
  std::uint64_t reserve = 0;                  ///< bytes that the caller will hold beside
};

class Host {
 public:
  /// Fails as Engine::open() does, or with ErrorKind::model_files if there is no tokenizer.
  static Result<std::unique_ptr<Host>> start(HostOptions options);
  ~Host();

  const ServedModel& model() const;
  Worker& worker();
  Metrics& metrics();

 private:
  struct Parts;
  explicit Host(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

/// Of one request, at this context: the bytes of its body, and the JSON values in it.
std::size_t most_body_bytes(std::size_t context);
std::size_t most_body_values(std::size_t context);

}  // namespace sluice::server
