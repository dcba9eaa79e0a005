#include "cli/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace sluice::cli {
namespace {

fs::path real_models() {
  if (const char* named = std::getenv("SLUICE_TEST_MODELS")) return named;
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) {
    return fs::path(cache) / "sluice/test-models";
  }
  const char* const home = std::getenv("HOME");
  return fs::path(home == nullptr ? "" : home) / ".cache/sluice/test-models";
}

}  // namespace

// Before main(): tests give the program a cache folder of its own.
const fs::path kRealModels = real_models();

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

Json golden_of(const std::string& model) {
  const fs::path folder = fs::path(SLUICE_SOURCE_DIR) / "tests/golden" / model;
  return Json::parse(read_file(folder / "golden.json"));
}

Json prompt_of(const Json& golden, const std::string& name) {
  for (const Json& prompt : golden.at("prompts")) {
    if (prompt.at("name") == name) return prompt;
  }
  ADD_FAILURE() << "no prompt " << name;
  return {};
}

std::string joined(const Json& ids) {
  return fmt::format("{}", fmt::join(ids.get<std::vector<std::int64_t>>(), ","));
}

std::size_t lines_of(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

Place place_of(const std::string& model, const std::string& tensor) {
  const Json index = Json::parse(read_file(fs::path(model) / "model.safetensors.index.json"));
  Place place;
  place.file = index.at("weight_map").at(tensor);
  const std::string content = read_file(fs::path(model) / place.file);
  std::uint64_t header = 0;
  content.copy(reinterpret_cast<char*>(&header), sizeof(header));
  const Json offsets = Json::parse(content.substr(8, header)).at(tensor).at("data_offsets");
  place.offset = 8 + header + offsets.at(0).get<std::uint64_t>();
  place.bytes = 8 + header + offsets.at(1).get<std::uint64_t>() - place.offset;
  return place;
}

Folder::Folder() {
  std::string name = (fs::temp_directory_path() / "sluice-cli-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

ModelCopy::ModelCopy(const std::string& model) {
  for (const auto& entry : fs::directory_iterator(model)) {
    fs::copy_file(entry.path(), folder_.path() / entry.path().filename());
  }
}

void ModelCopy::overwrite(const std::string& tensor, std::string_view bytes) const {
  const Place place = place_of(path(), tensor);
  ASSERT_LE(bytes.size(), place.bytes);
  std::string content = read_file(folder_ / place.file);
  content.replace(place.offset, bytes.size(), bytes);
  write_file(folder_ / place.file, content);
}

Array read_npy(const fs::path& path) {
  const std::string bytes = read_file(path);
  Array array;
  if (bytes.size() < 10 || bytes.substr(0, 8) != std::string("\x93NUMPY\x01\x00", 8)) {
    ADD_FAILURE() << path << " is no .npy of version 1.0";
    return array;
  }
  const std::size_t size =
      static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + size) % 64, 0u) << path;
  const std::string header = bytes.substr(10, size);
  EXPECT_EQ(header.back(), '\n');
  EXPECT_NE(header.find("'fortran_order': False"), std::string::npos) << header;
  array.descr = header.substr(header.find("'descr': '") + 10, 3);
  const std::size_t open = header.find('(');
  const std::string shape = header.substr(open + 1, header.find(')') - open - 1);
  std::uint64_t elements = 1;
  for (const Json& each : Json::parse(fmt::format("[{}]", shape))) {
    array.shape.push_back(each);
    elements *= each.get<std::uint64_t>();
  }
  const std::string data = bytes.substr(10 + size);
  EXPECT_EQ(data.size(), 4 * elements) << path;
  if (data.size() != 4 * elements) return array;
  if (array.descr == "<f4") {
    array.floats.resize(elements);
    data.copy(reinterpret_cast<char*>(array.floats.data()), data.size());
  } else {
    array.ints.resize(elements);
    data.copy(reinterpret_cast<char*>(array.ints.data()), data.size());
  }
  return array;
}

}  // namespace sluice::cli
