// What the readers of tests have in common that stand between an engine and its drives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "io/reader.h"

namespace sluice::io {

/// Passes everything on. Who derives from it changes what a test is about.
class PassingReader : public Reader {
 public:
  explicit PassingReader(std::unique_ptr<Reader> inner) : inner_(std::move(inner)) {}

  Result<FileId> open(const std::filesystem::path& path) override { return inner_->open(path); }
  std::uint64_t size(FileId file) const override { return inner_->size(file); }
  const std::filesystem::path& path(FileId file) const override { return inner_->path(file); }
  std::size_t drive_of(FileId file) const override { return inner_->drive_of(file); }
  std::size_t room_for(std::uint64_t length) const override { return inner_->room_for(length); }
  void submit(std::span<const ReadRequest> requests) override { inner_->submit(requests); }
  void promote(const CompletionSink& sink, std::uint64_t tag) override {
    inner_->promote(sink, tag);
  }
  void cancel(const CompletionSink& sink) override { inner_->cancel(sink); }
  ReaderStatistics statistics() const override { return inner_->statistics(); }
  std::uint64_t memory_bytes() const override { return inner_->memory_bytes(); }

 protected:
  Reader& inner() { return *inner_; }

 private:
  std::unique_ptr<Reader> inner_;
};

}  // namespace sluice::io
