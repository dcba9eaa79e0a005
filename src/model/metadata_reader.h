// Reading the metadata of a GGUF file so that nothing of the model's in it goes unnoticed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/metadata.h"

namespace sluice::model {

/// The metadata of one architecture, key by key; faults are collected.
class MetadataReader {
 public:
  MetadataReader(const store::Metadata& metadata, const std::string& architecture)
      : metadata_(metadata), prefix_(architecture + ".") {}

  std::uint64_t count(std::string_view name, std::uint64_t least, std::uint64_t most,
                      std::optional<std::uint64_t> absent = std::nullopt) {
    return take(metadata_.count(known(name), least, most, absent), absent.value_or(least));
  }
  double number(std::string_view name, double least, double most,
                std::optional<double> absent = std::nullopt) {
    const std::string key = known(name);
    const double value = take(metadata_.number(key, absent), least);
    if (value >= least && value <= most) return value;
    fault(name, fmt::format("expected a number from {} to {}, found {}", least, most, value));
    return least;
  }
  std::string text(std::string_view name, std::string_view absent) {
    return std::string(take(metadata_.text(known(name), absent), absent));
  }
  bool flag(std::string_view name, bool absent) {
    return take(metadata_.flag(known(name), absent), absent);
  }
  void ignore(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) known(name);
  }
  void fault(std::string_view name, std::string_view what) {
    faults_.push_back(fmt::format("{}: metadata {}{}: {}", metadata_.file(), prefix_, name, what));
  }

  /// A key of the architecture that nobody asked for is a fault: what it means is not known.
  void finish() {
    for (std::size_t i = 0; i < metadata_.size(); ++i) {
      const std::string key(metadata_.key(i));
      if (!key.starts_with(prefix_) || std::ranges::find(known_, key) != known_.end()) continue;
      fault(key.substr(prefix_.size()),
            "not understood; a model that needs it would be computed wrongly without it");
    }
  }

  std::vector<std::string>& faults() { return faults_; }

 private:
  template <class T>
  T take(Result<T> value, T otherwise) {
    if (value) return *value;
    faults_.push_back(value.error().message);
    return otherwise;
  }
  std::string known(std::string_view name) {
    return known_.emplace_back(prefix_ + std::string(name));
  }

  const store::Metadata& metadata_;
  std::string prefix_;
  std::vector<std::string> known_;
  std::vector<std::string> faults_;
};

}  // namespace sluice::model
