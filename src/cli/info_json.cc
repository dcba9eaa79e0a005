#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "cli/info_report.h"
#include "cli/json_text.h"

namespace sluice::cli {
namespace {

std::string_view key_of(model::TensorClass tensor_class) {
  switch (tensor_class) {
    case model::TensorClass::experts:
      return "expert";
    case model::TensorClass::trunk:
      return "trunk";
    case model::TensorClass::embedding:
      return "embedding";
    case model::TensorClass::head:
      return "head";
    case model::TensorClass::final_norms:
      return "final_norms";
    case model::TensorClass::left_out:
      return "left_out";
  }
  return "?";
}

std::string list_of(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + json_string(text);
  return "[" + out + "]";
}

std::string shape_json(const ModelFacts& facts) {
  const model::Shape& shape = facts.shape();
  return fmt::format(
      "  \"model\": {},\n  \"architecture\": {},\n  \"layers\": {},\n  \"hidden\": {},\n"
      "  \"vocabulary\": {},\n  \"experts\": {},\n  \"top_k\": {},\n  \"max_positions\": {},\n"
      "  \"layer_kinds\": {},\n",
      json_string(facts.folder.string()), json_string(shape.architecture), shape.layers,
      shape.hidden, shape.vocabulary, shape.experts, shape.top_k, shape.max_positions,
      list_of(shape.layer_kinds));
}

std::string files_json(const ModelFacts& facts) {
  std::string out = fmt::format(
      "  \"tensors\": {},\n  \"payload_bytes\": {},\n  \"file_bytes\": {},\n  \"files\": [",
      facts.tensors, facts.payload_bytes, facts.file_bytes);
  for (std::size_t i = 0; i < facts.files.size(); ++i) {
    std::vector<std::string> copies;
    for (const auto& copy : facts.files[i].copies) copies.push_back(copy.string());
    out += fmt::format("{}\n    {{\"path\": {}, \"bytes\": {}, \"copies\": {}}}", i > 0 ? "," : "",
                       json_string(facts.files[i].path.string()), facts.files[i].size,
                       list_of(copies));
  }
  return out + fmt::format("\n  ],\n  \"notes\": {},\n", list_of(facts.notes));
}

std::string totals_json(const ModelFacts& facts) {
  std::string out = "  \"classes\": {";
  for (std::size_t i = 0; i < model::kTensorClasses; ++i) {
    const auto tensor_class = static_cast<model::TensorClass>(i);
    const model::ClassTotal& total = facts.total(tensor_class);
    out += fmt::format("{}\n    \"{}\": {{\"tensors\": {}, \"bytes\": {}}}", i > 0 ? "," : "",
                       key_of(tensor_class), total.tensors, total.bytes);
  }
  out += fmt::format("\n  }},\n  \"left_out\": {},\n", list_of(facts.blueprint().left_out));
  const StateBytes state = state_of_a_sequence(*facts.architecture);
  out += fmt::format("  \"state\": {{\"fixed_bytes\": {}, \"bytes_per_position\": {}}},\n",
                     state.fixed, state.per_position);
  const TokenBytes token = bytes_of_a_token(facts);
  return out + fmt::format(
                   "  \"bytes_per_token\": {{\"trunk\": {}, \"experts\": {}, "
                   "\"embedding\": {}, \"all\": {}}},\n",
                   token.trunk, token.experts, token.embedding, token.sum());
}

std::string forecast_json(const Forecast& forecast) {
  std::string out = fmt::format("{{\"ram_bytes\": {}, \"context\": {}, \"fits\": {}", forecast.ram,
                                forecast.context, forecast.fits);
  if (forecast.fits) {
    out += fmt::format(
        ", \"smallest\": {}, \"chunk\": {}, \"resident_bytes\": {}, \"cached_experts\": {}, "
        "\"bytes_per_token\": {}",
        forecast.is_smallest, forecast.chunk, forecast.resident_bytes, forecast.cached_experts,
        forecast.bytes_per_token);
  }
  return out + "}";
}

std::string forecasts_json(const std::vector<Forecast>& forecasts) {
  std::string out = "  \"memory\": [";
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    out += (i > 0 ? ",\n    " : "\n    ") + forecast_json(forecasts[i]);
  }
  return out + "\n  ],\n";
}

/// The index of blocks, one line each.
class BlockIndex {
 public:
  BlockIndex(const ModelFacts& facts, Output& output) : facts_(facts), output_(output) {
    // Absolute, so that the index can be used from anywhere.
    for (const store::ShardFile& file : facts.files) {
      std::error_code ignored;
      const auto absolute = std::filesystem::absolute(file.path, ignored);
      paths_.push_back(json_string((ignored ? file.path : absolute).string()));
    }
  }

  Status write() {
    SLUICE_TRY(output_.append("  \"blocks\": ["));
    const model::Blueprint& blueprint = facts_.blueprint();
    for (const model::TrunkBlock& block : blueprint.trunk_blocks) {
      SLUICE_TRY(one(block.layer, key_of(block.tensor_class), "", block.extents));
    }
    const auto& layers = blueprint.blocks.expert_layers;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      for (std::size_t expert = 0; expert < layers[layer].experts.size(); ++expert) {
        join_parts(layers[layer], layers[layer].experts[expert]);
        SLUICE_TRY(one(static_cast<int>(layer), key_of(model::TensorClass::experts),
                       fmt::format(" \"expert\": {},", expert), extents_));
      }
    }
    return output_.append("\n  ]\n");
  }

 private:
  /// Into extents_: the parts of an expert, touching ones joined.
  void join_parts(const weights::ExpertLayer& layer, const weights::ExpertPlace& place) {
    extents_.clear();
    for (std::size_t part = 0; part < layer.parts; ++part) {
      extents_.push_back({place.file[part], place.offset[part], layer.part_bytes[part]});
    }
    std::sort(extents_.begin(), extents_.end(), [](const io::Extent& a, const io::Extent& b) {
      return a.file != b.file ? a.file < b.file : a.offset < b.offset;
    });
    std::size_t last = 0;
    for (std::size_t i = 1; i < extents_.size(); ++i) {
      io::Extent& before = extents_[last];
      if (before.file == extents_[i].file && before.offset + before.length == extents_[i].offset) {
        before.length += extents_[i].length;
      } else {
        extents_[++last] = extents_[i];
      }
    }
    extents_.resize(last + 1);
  }

  /// The extents in the files: those of a pack's stream lie in pieces in its parts.
  std::vector<io::Extent> in_files(const std::vector<io::Extent>& extents) const {
    if (facts_.pack == nullptr) return extents;
    std::vector<io::Extent> pieces;
    for (const io::Extent& extent : extents) {
      facts_.pack->for_each_piece(extent.offset, extent.length,
                                  [&](std::uint64_t, const store::PartExtent& piece) {
                                    pieces.push_back({piece.part, piece.offset, piece.length});
                                  });
    }
    return pieces;
  }

  Status one(int layer, std::string_view kind, std::string_view expert,
             const std::vector<io::Extent>& in_stream) {
    const std::vector<io::Extent> extents = in_files(in_stream);
    std::uint64_t bytes = 0;
    for (const io::Extent& extent : extents) bytes += extent.length;
    const std::string layer_text = layer < 0 ? "null" : std::to_string(layer);
    std::string text = fmt::format(
        "{}\n    {{\"id\": {}, \"layer\": {}, \"kind\": \"{}\",{} \"file\": {}, \"offset\": {}, "
        "\"bytes\": {}",
        id_ > 0 ? "," : "", id_, layer_text, kind, expert, paths_[extents[0].file],
        extents[0].offset, bytes);
    ++id_;
    if (extents.size() > 1) {
      text += ", \"extents\": [";
      for (std::size_t i = 0; i < extents.size(); ++i) {
        text += fmt::format("{}{{\"file\": {}, \"offset\": {}, \"bytes\": {}}}", i > 0 ? ", " : "",
                            paths_[extents[i].file], extents[i].offset, extents[i].length);
      }
      text += "]";
    }
    return output_.append(text + "}");
  }

  const ModelFacts& facts_;
  Output& output_;
  std::vector<std::string> paths_;   // quoted, by file
  std::vector<io::Extent> extents_;  // of the expert at hand
  std::uint64_t id_ = 0;
};

}  // namespace

Status write_info_json(const ModelFacts& facts, const std::vector<Forecast>& forecasts,
                       Output& output) {
  SLUICE_TRY(output.append("{\n" + shape_json(facts) + files_json(facts) + totals_json(facts) +
                           forecasts_json(forecasts)));
  SLUICE_TRY(BlockIndex(facts, output).write());
  SLUICE_TRY(output.append("}\n"));
  return output.flush();
}

}  // namespace sluice::cli
