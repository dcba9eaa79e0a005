// A small pack made by hand, for tests of what reads packs.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "store/checksum.h"
#include "store/pack.h"
#include "store/pack_index.h"
#include "store/pack_stripes.h"

namespace sluice::store {

class PackFolder {
 public:
  PackFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-pack-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~PackFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PackFolder(const PackFolder&) = delete;
  PackFolder& operator=(const PackFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

/// An index with experts of three parts, a matrix in groups of rows, an odd vector, a scalar and a
/// tensor without elements.
inline PackIndex small_index(std::vector<std::uint8_t> deal, std::uint64_t chunk_bytes) {
  PackIndex index;
  index.identity = 42;
  index.chunk_bytes = chunk_bytes;
  index.deal = std::move(deal);
  PackTensorMaker maker(index);
  const auto shape = [](std::vector<std::uint64_t> sizes) {
    Shape made;
    for (const std::uint64_t size : sizes) made.size[made.rank++] = size;
    return made;
  };
  const auto add = [&](const std::string& name, DType dtype, std::vector<std::uint64_t> sizes) {
    index.tensors.push_back(maker.make(name, dtype, shape(std::move(sizes))));
  };
  add("embedding.weight", DType::bf16, {50, 64});
  index.blocks.push_back({1, 1, -1, -1});
  add("layers.0.norm.weight", DType::f32, {37});
  index.blocks.push_back({1, 0, -1, -1});
  add("layers.0.q.weight", DType::bf16, {300, 100});
  index.blocks.push_back({1, 32, -1, -1});
  for (int expert = 0; expert < 5; ++expert) {
    for (const char* part : {"w1", "w2", "w3"}) {
      add("layers.0.experts." + std::to_string(expert) + "." + part, DType::u8, {61, 33});
    }
    index.blocks.push_back({3, 0, 0, expert});
  }
  add("scalar", DType::f32, {});
  index.blocks.push_back({1, 0, -1, -1});
  add("nothing", DType::f32, {0, 7});
  index.blocks.push_back({1, 1, -1, -1});
  add("head.weight", DType::bf16, {50, 64});
  index.blocks.push_back({1, 500, -1, -1});
  return index;
}

/// Some bytes for the index's stream, zeros between the blocks, with their checksums entered.
inline std::vector<std::byte> fill_stream(PackIndex& index) {
  std::vector<std::byte> stream(stream_bytes(index));
  std::uint32_t state = 1;
  index.checksums.clear();
  for (BlockWalk walk(index); !walk.done(); walk.next()) {
    const BlockSpan span = walk.span();
    for (std::uint64_t i = 0; i < span.bytes; ++i) {
      state = state * 1664525 + 1013904223;
      stream[span.offset + i] = static_cast<std::byte>(state >> 24);
    }
    for (std::uint64_t unit = 0; unit < span.units(); ++unit) {
      const std::uint64_t begin = unit * span.unit_bytes;
      index.checksums.push_back(checksum_of(std::span(stream).subspan(
          span.offset + begin, std::min(span.unit_bytes, span.bytes - begin))));
    }
  }
  return stream;
}

/// Writes the pack's files, all into one folder.
inline void write_pack(PackIndex& index, std::span<const std::byte> stream,
                       const PackFolder& folder) {
  const std::size_t parts =
      std::size_t{1} + *std::max_element(index.deal.begin(), index.deal.end());
  index.folders.assign(parts, folder.path().string());
  const Stripes stripes(index.chunk_bytes, index.deal, parts);
  std::vector<std::vector<std::byte>> files(parts);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::uint64_t data = stripes.part_bytes(part, stream.size());
    const auto header = part_header(index.identity, part, parts, data);
    files[part].assign(header.begin(), header.end());
    files[part].resize(kPartHeaderBytes + data);
  }
  stripes.for_each(0, stream.size(), [&](std::uint64_t at, const PartExtent& to) {
    std::memcpy(files[to.part].data() + kPartHeaderBytes + to.offset, stream.data() + at,
                to.length);
  });
  for (std::size_t part = 0; part < parts; ++part) {
    folder.write(pack_part_name(part, parts), files[part]);
  }
  folder.write(kPackIndexName, encode_pack_index(index));
}

/// Writes a small file beside the index, and enters it there.
inline void add_companion(PackIndex& index, const PackFolder& folder, const std::string& name,
                          std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  folder.write(name, bytes);
  index.companions.push_back({name, bytes.size(), checksum_of(bytes)});
}

}  // namespace sluice::store
