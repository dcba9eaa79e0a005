// The index of a model in several files: which tensor is in which.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "store/faults.h"
#include "store/text_file.h"

namespace sluice::store {

/// K3's index, the largest known, has 60 MB.
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{512} << 20;

/// `model.safetensors.index.json`, in memory. Names are looked at where they stand in its text:
/// it is parsed once to find the files, and once more to compare it with them.
class Index {
 public:
  /// Reads the file and checks all of it but whether the files hold what it says. What is wrong
  /// goes to `faults`; nothing is returned when it cannot be used at all.
  static std::optional<Index> read(const std::filesystem::path& path, FaultList& faults);
  /// The same for a text in memory. For tests and fuzzing.
  static std::optional<Index> parse(PaddedText text, std::string_view file, FaultList& faults);

  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;
  ~Index();

  /// The files that tensors are said to be in, sorted, each once. All are plain file names.
  const std::vector<std::string>& shards() const;
  /// Lines of the weight map.
  std::uint64_t lines() const;
  /// `metadata.total_size`, if it is given and a whole number.
  std::optional<std::uint64_t> total_size() const;
  /// Calls visit(tensor name, index into shards()) for each line of the weight map whose file name
  /// is sound.
  void for_each(FunctionRef<void(std::string_view name, std::uint32_t shard)> visit);

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::store
