// What an engine is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/ledger.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "engine/adapter_pool.h"
#include "engine/engine.h"
#include "engine/pressure.h"
#include "io/reader.h"
#include "model/network.h"
#include "weights/expert_banks.h"
#include "weights/placement.h"
#include "weights/trunk_stream.h"

namespace sluice::engine {

/// Everything an engine is made of, in the order of making: what is later uses what is earlier.
struct Engine::Parts {
  /// `storage`: what the kernel had counted before the model's first byte was read.
  Parts(std::uint64_t ram, std::optional<std::uint64_t> storage)
      : ledger(ram), storage_before(storage) {}

  MemoryLedger ledger;
  std::unique_ptr<Trace> trace;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<io::Reader> reader;
  std::unique_ptr<model::Architecture> architecture;
  weights::Placement placement;
  std::uint64_t fingerprint = 0;  // of the model, for its history; 0: none is kept
  std::uint64_t digest = 0;
  std::unique_ptr<PressureGuard> guard;
  std::uint64_t most_gone_bytes = 0;
  std::unique_ptr<weights::TrunkStream> trunk;
  std::unique_ptr<weights::ExpertActivity> activity;
  std::unique_ptr<weights::ExpertBanks> experts;
  std::unique_ptr<model::Network> network;
  AdapterPool adapters;
  const std::optional<std::uint64_t> storage_before;
};

/// Whether `tokens` more than `before` fit into `context` positions of the model.
Status check_length(std::size_t before, std::size_t tokens, std::size_t context,
                    const model::Shape& shape);

}  // namespace sluice::engine
