// Packs: the same bytes however often the work was ended, and no wrong byte is ever used.
#include "engine/pack.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "engine/checkpoint_copy.h"
#include "engine/pack_support.h"
#include "io/fault_reader.h"

namespace sluice::engine {
namespace {

using Files = std::map<std::string, std::string>;

/// The power goes at operation `last`: half of a write arrives, and of what was not synced since
/// nothing can be relied on.
class DyingOutput final : public PackOutput {
 public:
  DyingOutput(std::unique_ptr<PackOutput> inner, std::uint64_t last, std::uint64_t& operations)
      : inner_(std::move(inner)), last_(last), operations_(operations) {}

  Status write(std::size_t part, std::uint64_t offset, std::span<const std::byte> bytes) override {
    if (dies()) {
      if (!dead_) static_cast<void>(inner_->write(part, offset, bytes.first(bytes.size() / 2)));
      return die();
    }
    unsynced_.push_back({part, offset, bytes.size()});
    return inner_->write(part, offset, bytes);
  }
  Status sync() override {
    if (dies()) return die();
    unsynced_.clear();
    return inner_->sync();
  }
  Status append(std::span<const std::byte> record) override {
    if (dies()) {
      if (!dead_) static_cast<void>(inner_->append(record.first(record.size() / 2)));
      return die();
    }
    return inner_->append(record);
  }
  Status publish(std::span<const std::byte> index) override {
    if (dies()) return die();
    return inner_->publish(index);
  }

 private:
  struct Unsynced {
    std::size_t part;
    std::uint64_t offset;
    std::size_t bytes;
  };
  bool dies() { return operations_++ >= last_; }
  Status die() {
    if (!std::exchange(dead_, true)) {
      for (const Unsynced& lost : unsynced_) {
        const std::vector<std::byte> garbage(lost.bytes, std::byte{0xEE});
        static_cast<void>(inner_->write(lost.part, lost.offset, garbage));
      }
    }
    return fail(ErrorKind::drive, "the power went");
  }

  std::unique_ptr<PackOutput> inner_;
  const std::uint64_t last_;
  std::uint64_t& operations_;
  std::vector<Unsynced> unsynced_;
  bool dead_ = false;
};

PackOptions dying(PackOptions options, std::uint64_t last, std::uint64_t& operations) {
  options.wrap_output = [last, &operations](std::unique_ptr<PackOutput> inner) {
    return std::make_unique<DyingOutput>(std::move(inner), last, operations);
  };
  return options;
}

class Packs : public ::testing::Test {
 protected:
  Files packed_at_once(const PackOptions& options, std::uint64_t& operations) {
    const auto done =
        pack_quietly(dying(options, std::numeric_limits<std::uint64_t>::max(), operations));
    EXPECT_TRUE(done) << done.error().message;
    Files files = all_files(folders_.root());
    clear();
    return files;
  }
  void clear() {
    for (const auto& entry : fs::directory_iterator(folders_.root())) fs::remove_all(entry.path());
  }

  PackFolders folders_;
};

TEST_F(Packs, EndedAtAnyMomentTheyEndInTheSameBytes) {
  const PackOptions options = pack_options("k3-tiny", folders_.some(3));
  std::uint64_t operations = 0;
  const Files expected = packed_at_once(options, operations);
  ASSERT_GT(operations, 100u);
  constexpr std::uint64_t kKills = 24;
  for (std::uint64_t kill = 0; kill < kKills; ++kill) {
    // The last ones hit the end one by one: records of the read-back, and the index.
    const std::uint64_t last =
        kill < kKills - 4 ? kill * operations / (kKills - 4) : operations - (kKills - kill);
    std::uint64_t count = 0;
    const auto killed = pack_quietly(dying(options, last, count));
    ASSERT_FALSE(killed) << last;
    const auto opened = store::Checkpoint::open(options.folders[0]);
    ASSERT_FALSE(opened) << "an unfinished pack is no model";
    EXPECT_NE(opened.error().message.find("not finished"), std::string::npos);
    const auto resumed = pack_quietly(options);
    ASSERT_TRUE(resumed) << resumed.error().message;
    ASSERT_EQ(all_files(folders_.root()), expected) << "killed at operation " << last;
    clear();
  }
}

TEST_F(Packs, EndedAgainAndAgainTheyGoOnWhereTheyWere) {
  PackOptions options = pack_options("k3-tiny", folders_.some(2));
  options.sync_bytes = 16 << 10;
  std::uint64_t operations = 0;
  const Files expected = packed_at_once(options, operations);
  int starts = 0;
  std::uint64_t resumed_at = 0;
  for (;; ++starts) {
    ASSERT_LT(starts, 50);
    std::uint64_t count = 0;
    const auto done = pack_quietly(dying(options, operations / 4, count));
    if (!done) continue;
    resumed_at = done->resumed_at;
    break;
  }
  EXPECT_GT(starts, 2);
  EXPECT_GT(resumed_at, 0u);
  EXPECT_EQ(all_files(folders_.root()), expected);
}

TEST_F(Packs, StartedOnceMoreAFinishedPackIsLeftAlone) {
  const PackOptions options = pack_options("k3-tiny", folders_.some(2));
  ASSERT_TRUE(pack_quietly(options));
  const Files expected = all_files(folders_.root());
  // As if the power went between the index's name and the journal's end.
  std::ofstream(options.folders[0] / store::kPackJournalName) << "left over";
  EXPECT_TRUE(store::Checkpoint::open(options.folders[0]));
  const auto again = pack_quietly(options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->was_there);
  EXPECT_EQ(all_files(folders_.root()), expected);
}

/// One write of data arrives wrong: as if the drive had mixed it up.
class LyingOutput final : public PackOutput {
 public:
  explicit LyingOutput(std::unique_ptr<PackOutput> inner) : inner_(std::move(inner)) {}
  Status write(std::size_t part, std::uint64_t offset, std::span<const std::byte> bytes) override {
    const bool is_filling =  // between two blocks
        std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
    if (offset < 100'000 || bytes.size() < 100 || is_filling || std::exchange(lied_, true)) {
      return inner_->write(part, offset, bytes);
    }
    std::vector<std::byte> wrong(bytes.begin(), bytes.end());
    wrong[50] ^= std::byte{1};
    return inner_->write(part, offset, wrong);
  }
  Status sync() override { return inner_->sync(); }
  Status append(std::span<const std::byte> record) override { return inner_->append(record); }
  Status publish(std::span<const std::byte> index) override { return inner_->publish(index); }

 private:
  std::unique_ptr<PackOutput> inner_;
  bool lied_ = false;
};

std::unique_ptr<PackOutput> lying(std::unique_ptr<PackOutput> inner) {
  return std::make_unique<LyingOutput>(std::move(inner));
}

TEST_F(Packs, WhatTheDriveGivesBackWrongIsWrittenAgain) {
  PackOptions options = pack_options("k3-tiny", folders_.some(1));
  std::uint64_t operations = 0;
  const Files expected = packed_at_once(options, operations);
  options.wrap_output = &lying;
  const auto wrong = pack_quietly(options);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::drive);
  EXPECT_NE(wrong.error().message.find("did not give back"), std::string::npos);
  options.wrap_output = nullptr;
  const auto right = pack_quietly(options);
  ASSERT_TRUE(right) << right.error().message;
  EXPECT_EQ(all_files(folders_.root()), expected);
}

TEST_F(Packs, TheReadBackEndsWithThePieceThatIsWrong) {
  PackOptions options = pack_options("k3-nano", folders_.some(1));
  options.wrap_output = &lying;
  std::uint64_t read_back = 0;
  std::uint64_t all = 0;
  const auto wrong = pack(options, [&](const PackProgress& now) {
    if (now.stage != PackProgress::Stage::verifying) return;
    read_back = now.bytes_done;
    all = now.bytes_total;
  });
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("did not give back"), std::string::npos);
  EXPECT_TRUE(read_back == 0 || read_back < all) << "the rest was read for nothing";
  options.wrap_output = nullptr;
  const auto right = pack_quietly(options);
  ASSERT_TRUE(right) << right.error().message;
  const auto report = verify_quietly(options.folders[0]);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->faults, 0u);
}

TEST_F(Packs, InFoldersWhoseNamesAreNoUtf8TheyGoOnToo) {
  PackOptions options =
      pack_options("k3-tiny", {folders_.root() / "a\xff\xfe 100%", folders_.root() / "\xc3\xa9"});
  options.sync_bytes = 16 << 10;
  std::uint64_t operations = 0;
  const Files expected = packed_at_once(options, operations);
  std::uint64_t count = 0;
  ASSERT_FALSE(pack_quietly(dying(options, operations / 2, count)));
  const auto resumed = pack_quietly(options);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_GT(resumed->resumed_at, 0u);
  EXPECT_EQ(all_files(folders_.root()), expected);
}

TEST_F(Packs, Promise6ASourceThatCannotBeReadIsNamedAndTheRestKept) {
  PackOptions options = pack_options("k3-tiny", folders_.some(1));
  options.wrap_reader = [](std::unique_ptr<io::Reader> inner) {
    io::ReadFaults faults;
    faults.faults.push_back({.path_ending = "00002-of-000003.safetensors", .from = 50});
    return io::make_fault_reader(std::move(inner), faults);
  };
  const auto failed = pack_quietly(options);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::drive);
  EXPECT_NE(failed.error().message.find("00002-of-000003"), std::string::npos);
  options.wrap_reader = nullptr;
  const auto resumed = pack_quietly(options);
  ASSERT_TRUE(resumed) << resumed.error().message;
}

std::string refusal(const PackOptions& options, ErrorKind kind) {
  const auto refused = pack_quietly(options);
  EXPECT_FALSE(refused);
  if (refused) return {};
  EXPECT_EQ(refused.error().kind, kind) << refused.error().message;
  return refused.error().message;
}

TEST_F(Packs, FoldersThatAreNotForThemAreRefused) {
  PackOptions options = pack_options("k3-tiny", folders_.some(2));
  fs::create_directories(options.folders[1]);
  std::ofstream(options.folders[1] / "holiday.jpg") << "a picture";
  EXPECT_NE(refusal(options, ErrorKind::usage).find("holiday.jpg"), std::string::npos);
  clear();
  options.folders[1] = options.folders[0];
  EXPECT_NE(refusal(options, ErrorKind::usage).find("given twice"), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folders[0])) << "nothing is made for a command that is refused";
  options.folders[1] = options.folders[0] / "inside";
  EXPECT_NE(refusal(options, ErrorKind::usage).find("lies in another"), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folders[0]));
  const fs::path model = folders_.root() / "model";
  fs::copy(options.model, model);
  options.model = model;
  options.folders[1] = model / "pack";
  EXPECT_NE(refusal(options, ErrorKind::usage).find("lies in that of the model"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(model / "pack"));
}

TEST_F(Packs, GgufModelsAreRefused) {
  PackOptions options = pack_options("gguf-blocks-tiny", folders_.some(1));
  EXPECT_NE(refusal(options, ErrorKind::usage).find("GGUF"), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folders[0]));
}

TEST_F(Packs, ModelsWhoseExpertsShareTensorsAreRefused) {
  PackOptions options = pack_options("gpt-oss-tiny", folders_.some(1));
  EXPECT_NE(refusal(options, ErrorKind::usage).find("in the same tensors"), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folders[0]));
}

TEST_F(Packs, WhatWasBegunOtherwiseIsNotGoneOnWith) {
  const fs::path model = folders_.root() / "model";
  fs::copy(checkpoint_folder("k3-tiny"), model);
  PackOptions options = pack_options("k3-tiny", folders_.some(2));
  options.model = model;
  std::uint64_t count = 0;
  ASSERT_FALSE(pack_quietly(dying(options, 50, count)));
  PackOptions other = options;
  other.folders.pop_back();
  other.speeds.pop_back();
  EXPECT_NE(refusal(other, ErrorKind::usage).find("begun with --out"), std::string::npos);
  other = options;
  other.speeds = {1, 1};
  EXPECT_NE(refusal(other, ErrorKind::usage).find("--speed"), std::string::npos);
  other = options;
  other.chunk_bytes = 4096;
  EXPECT_NE(refusal(other, ErrorKind::usage).find("--stripe"), std::string::npos);
  const fs::path shard = model / "model-00001-of-000003.safetensors";
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::seconds(1));
  EXPECT_NE(refusal(options, ErrorKind::model_files).find("changed since"), std::string::npos);
}

TEST_F(Packs, ADriveWithoutRoomIsNamedBeforeAnythingIsWritten) {
  fs::create_directories(folders_.root() / "here");
  const fs::path folder = folders_.root() / "here";
  const Status room = check_room({{folder / "part", std::uint64_t{1} << 59}}, folder, 0);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().kind, ErrorKind::drive);
  EXPECT_NE(room.error().message.find(folder.string()), std::string::npos);
  EXPECT_TRUE(check_room({{folder / "part", 1}}, folder, 0));
}

TEST_F(Packs, APackOfAPackIsThePack) {
  const auto folders = folders_.some(2);
  ASSERT_TRUE(pack_quietly(pack_options("k3-small", {folders[0]})));
  PackOptions options = pack_options("k3-small", {folders[1]});
  options.model = folders[0];
  ASSERT_TRUE(pack_quietly(options));
  const std::string name = store::pack_part_name(0, 1);
  // The headers differ: they say which files the pack was made from.
  EXPECT_EQ(bytes_of_file(folders[0] / name).substr(4096),
            bytes_of_file(folders[1] / name).substr(4096));
}

/// Where a byte of a tensor lies in the pack's files.
std::pair<fs::path, std::uint64_t> place_of(const store::Checkpoint& checkpoint,
                                            const std::string& tensor, std::uint64_t byte) {
  const auto found = checkpoint.find(tensor);
  EXPECT_TRUE(found) << tensor;
  std::pair<fs::path, std::uint64_t> place;
  checkpoint.pack()->for_each_piece(
      found->offset + byte, 1, [&](std::uint64_t, const store::PartExtent& piece) {
        place = {checkpoint.pack()->parts()[piece.part].path, piece.offset};
      });
  return place;
}

/// The name of a tensor that has all of these in it.
std::string name_with(const store::Checkpoint& checkpoint, const std::vector<std::string>& texts) {
  std::string found;
  checkpoint.for_each([&](std::string_view name, const store::Tensor&) {
    const bool all = std::ranges::all_of(
        texts, [&](const std::string& text) { return name.find(text) != std::string_view::npos; });
    if (all && found.empty()) found = name;
  });
  return found;
}

TEST_F(Packs, Promise6OneFlippedByteIsFoundByTheRunThatReadsItAndByVerify) {
  const PackOptions options = pack_options("k3-tiny", folders_.some(2));
  ASSERT_TRUE(pack_quietly(options));
  const auto checkpoint = store::Checkpoint::open(options.folders[0]);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const std::vector<std::int32_t> tokens = {3, 141, 59};
  EngineOptions run;
  run.model = options.folders[0];
  run.context = 64;
  run.all_logits = true;
  const auto engine = Engine::open(run);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = trace(**engine, tokens);
  ASSERT_TRUE(expected) << expected.error().message;
  std::size_t layer = 0;
  while (expected->routes[layer].empty()) ++layer;
  const std::string expert =
      fmt::format("layer {}, expert {}", layer, expected->routes[layer][0][0]);
  const std::string expert_tensor =
      name_with(*checkpoint, {fmt::format("layers.{}.", layer),
                              fmt::format("experts.{}.w2", expected->routes[layer][0][0])});
  const std::string embedding = name_with(*checkpoint, {"embed_tokens"});
  const auto row = checkpoint->find(embedding)->bytes / checkpoint->find(embedding)->shape.size[0];
  struct Kind {
    std::string tensor;
    std::uint64_t byte;
    std::string named;
  };
  const std::vector<Kind> kinds = {
      {expert_tensor, 11, expert},
      {embedding, 141 * row + 1, "row 141"},
      {name_with(*checkpoint, {"layers.0.", "input_layernorm"}), 2, "input_layernorm"},
      {name_with(*checkpoint, {"layers.1.", "o_proj"}), 77, "o_proj"},
      {name_with(*checkpoint, {"lm_head"}), 500, "lm_head"}};
  for (const Kind& kind : kinds) {
    const auto [path, offset] = place_of(*checkpoint, kind.tensor, kind.byte);
    flip(path, offset);
    const auto damaged = Engine::open(run);
    const auto result = damaged ? trace(**damaged, tokens) : tl::unexpected(damaged.error());
    ASSERT_FALSE(result) << kind.named;
    EXPECT_EQ(result.error().kind, ErrorKind::model_files);
    for (const std::string& text : {kind.named, path.filename().string()}) {
      EXPECT_NE(result.error().message.find(text), std::string::npos) << result.error().message;
    }
    const auto report = verify_quietly(run.model);
    ASSERT_TRUE(report);
    ASSERT_EQ(report->faults, 1u) << kind.named;
    EXPECT_NE(report->listed[0].message.find(kind.named), std::string::npos)
        << report->listed[0].message;
    flip(path, offset);
  }
  const auto whole = verify_quietly(run.model);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->faults, 0u);
}

TEST_F(Packs, Promise6NoByteOfAnyFileIsLeftUnwatched) {
  const PackOptions options = pack_options("kl-tiny", folders_.some(2));
  ASSERT_TRUE(pack_quietly(options));
  for (const fs::path& folder : options.folders) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.path().filename().string().starts_with("sluice-pack")) continue;
      const std::uint64_t size = fs::file_size(entry.path());
      for (std::uint64_t at = 1; at < size; at += size / 37) {
        flip(entry.path(), at);
        const auto report = verify_quietly(options.folders[0]);
        ASSERT_TRUE(report);
        EXPECT_GT(report->faults, 0u) << entry.path() << " at " << at;
        flip(entry.path(), at);
      }
    }
  }
}

TEST_F(Packs, Promise6VerifyListsEveryFault) {
  const PackOptions options = pack_options("k3-tiny", folders_.some(1));
  ASSERT_TRUE(pack_quietly(options));
  const fs::path data = options.folders[0] / store::pack_part_name(0, 1);
  for (std::uint64_t i = 1; i <= 20; ++i) flip(data, i * 100'000);
  const auto report = verify_quietly(options.folders[0]);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->faults, 20u);
  EXPECT_EQ(report->listed.size(), 20u);
}

class VerifyCheckpoint : public Packs {
 protected:
  VerifyCheckpoint() : model_(folders_.root() / "model") {
    fs::copy(checkpoint_folder("k3-tiny"), model_);
  }
  void overwrite(const std::string& tensor, std::uint64_t at, std::string_view bytes) {
    const auto checkpoint = store::Checkpoint::open(model_);
    ASSERT_TRUE(checkpoint);
    const auto found = checkpoint->find(tensor);
    ASSERT_TRUE(found) << tensor;
    std::fstream file(checkpoint->files()[found->file].path,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(found->offset + at));
    file << bytes;
  }
  fs::path model_;
};

TEST_F(VerifyCheckpoint, ASoundOneHasNoFault) {
  const auto report = verify_quietly(model_);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->faults, 0u);
  EXPECT_FALSE(report->is_pack);
  EXPECT_EQ(report->bytes, store::Checkpoint::open(model_)->payload_bytes());
}

TEST_F(VerifyCheckpoint, Promise6NumbersThatAreNoneAreNamed) {
  const auto checkpoint = store::Checkpoint::open(model_);
  ASSERT_TRUE(checkpoint);
  const std::string scale = name_with(*checkpoint, {"experts.2.", "weight_scale"});
  const std::string matrix = name_with(*checkpoint, {"layers.1.", "o_proj.weight"});
  const std::string vector = name_with(*checkpoint, {"A_log"});
  overwrite(scale, 3, "\xFF");
  overwrite(matrix, 10, std::string_view("\x80\x7F", 2));
  overwrite(matrix, 20, std::string_view("\xC0\xFF", 2));
  overwrite(vector, 0, std::string_view("\0\0\xC0\x7F", 4));
  const auto report = verify_quietly(model_);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->faults, 3u);
  std::string all;
  for (const VerifyFault& fault : report->listed) all += fault.message + "\n";
  for (const std::string& text :
       {scale, matrix, vector, std::string("255"), std::string("2 of its")}) {
    EXPECT_NE(all.find(text), std::string::npos) << text << " not in " << all;
  }
}

TEST(VerifyGptOss, Promise6ScalesOfItsExpertsThatAreNoNumbersAreNamed) {
  const CheckpointCopy copy("gpt-oss-tiny");
  const std::uint64_t before = verify_quietly(copy.folder())->faults;  // it has no tokenizer
  const std::string scales = "model.layers.0.mlp.experts.gate_up_proj_scales";
  copy.change_tensor(scales, [](std::vector<char>& bytes) { bytes[5] = '\xff'; });
  const auto report = verify_quietly(copy.folder());
  ASSERT_EQ(report->faults, before + 1);
  const auto named = [&](const VerifyFault& fault) {
    return fault.message.find(scales) != std::string::npos &&
           fault.message.find("255") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(report->listed, named));
}

TEST(VerifyGguf, Promise6ScalesOfBlocksThatAreNoNumbersAreNamed) {
  const CheckpointCopy copy("gguf-qwen3moe-tiny");
  const auto checkpoint = store::Checkpoint::open(copy.folder());
  ASSERT_TRUE(checkpoint);
  const std::uint64_t before = verify_quietly(copy.folder())->faults;  // it has no tokenizer
  const std::string mxfp4 = "blk.0.ffn_down_exps.weight";
  const std::string q8_0 = "blk.1.attn_q.weight";
  const auto overwrite = [&](const std::string& name, std::size_t block, std::string_view bytes) {
    const auto tensor = checkpoint->find(name);
    ASSERT_TRUE(tensor);
    std::fstream file(checkpoint->files()[tensor->file].path,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(tensor->offset + block * bytes_of(tensor->dtype)));
    file << bytes;
  };
  overwrite(mxfp4, 2, "\xFF");
  overwrite(q8_0, 3, std::string_view("\0\x7E", 2));
  overwrite(q8_0, 1, std::string_view("\0\xFC", 2));
  const auto report = verify_quietly(copy.folder());
  ASSERT_EQ(report->faults, before + 2);
  std::string all;
  for (const VerifyFault& fault : report->listed) all += fault.message + "\n";
  for (const std::string& text : {mxfp4, q8_0, std::string("2 of its Q8_0 scales are NaN")}) {
    EXPECT_NE(all.find(text), std::string::npos) << text << " not in " << all;
  }
}

TEST_F(VerifyCheckpoint, Promise6WhatCannotBeReadIsTheDrives) {
  VerifyOptions options;
  options.model = model_;
  options.wrap_reader = [](std::unique_ptr<io::Reader> inner) {
    io::ReadFaults faults;
    faults.faults.push_back({.from = 5, .count = 3});
    return io::make_fault_reader(std::move(inner), faults);
  };
  const auto report = verify(options, [](const VerifyProgress&) {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->faults, 3u);
  EXPECT_EQ(report->listed[0].kind, ErrorKind::drive);
}

TEST_F(VerifyCheckpoint, Promise6ACutFileIsAFault) {
  const fs::path shard = model_ / "model-00002-of-000003.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 100);
  const auto report = verify_quietly(model_);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->faults, 1u);
  EXPECT_NE(report->listed[0].message.find("too short"), std::string::npos);
}

TEST_F(Packs, TwoAtTheSameTimeAreOneTooMany) {
  const auto folders = folders_.some(3);
  const PackOptions options = pack_options("k3-tiny", {folders[0], folders[1]});
  std::optional<Result<PackSummary>> second;
  std::optional<Result<PackSummary>> sharing;
  const auto first = pack(options, [&](const PackProgress&) {
    if (second) return;
    second = pack_quietly(options);
    sharing = pack_quietly(pack_options("k3-tiny", {folders[2], folders[1]}));
  });
  EXPECT_TRUE(first) << first.error().message;
  for (const auto* refused : {&second, &sharing}) {
    ASSERT_TRUE(refused->has_value());
    ASSERT_FALSE(**refused);
    EXPECT_EQ((**refused).error().kind, ErrorKind::usage);
    EXPECT_NE((**refused).error().message.find("another sluice pack is writing into this folder"),
              std::string::npos)
        << (**refused).error().message;
  }
  EXPECT_TRUE(pack_quietly(options)) << "the lock ended with its owner";
}

TEST_F(Packs, ChangedSmallFilesAreAnotherModel) {
  const fs::path model = folders_.root() / "model";
  fs::copy(checkpoint_folder("k3-tiny"), model, fs::copy_options::recursive);
  PackOptions options = pack_options("k3-tiny", {folders_.root() / "pack"});
  options.model = model;
  ASSERT_TRUE(pack_quietly(options));
  const auto again = pack_quietly(options);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->was_there);
  std::ofstream(model / "tokenizer_config.json", std::ios::app) << " ";
  const auto changed = pack_quietly(options);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace sluice::engine
