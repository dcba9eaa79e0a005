#include "model/quantization_fields.h"

namespace sluice::model {
namespace {

using Kind = Fields::Kind;

}  // namespace

void check_compressed_tensors(Fields fields, Compressed compressed) {
  const bool mxfp4 = compressed == Compressed::mxfp4;
  const char* const format = mxfp4 ? "mxfp4-pack-quantized" : "pack-quantized";
  fields.expect("format", format, false);
  fields.expect("quant_method", "compressed-tensors");
  fields.expect("quantization_status", "compressed");
  fields.expect("global_compression_ratio", nullptr);
  fields.expect("kv_cache_scheme", nullptr);
  fields.unused(Kind::list, {"ignore"});
  Fields groups = fields.object("config_groups");
  Fields group = groups.object("group_0");
  group.expect("format", format);
  group.expect("input_activations", nullptr);
  group.expect("output_activations", nullptr);
  group.unused(Kind::list, {"targets"});
  Fields weights = group.object("weights");
  weights.expect("group_size", 32, false);
  weights.expect("num_bits", 4, false);
  weights.expect("type", mxfp4 ? "float" : "int");
  weights.expect("strategy", "group");
  weights.expect("symmetric", true);
  weights.expect("dynamic", false);
  weights.expect("scale_dtype", mxfp4 ? nlohmann::json("torch.uint8") : nlohmann::json());
  weights.expect("zp_dtype", nullptr);
  weights.expect("actorder", nullptr);
  weights.expect("block_structure", nullptr);
  weights.unused(Kind::text, {"observer"});
  weights.unused(Kind::object, {"observer_kwargs"});
  for (Fields* each : {&weights, &group, &groups, &fields}) each->finish();
}

void check_block_fp8(Fields fields) {
  fields.expect("quant_method", "fp8", false);
  fields.expect("fmt", "e4m3");
  fields.expect("weight_block_size", {128, 128}, false);
  // Of activations, which stay float32 here: the weights alone are rounded.
  fields.unused(Kind::text, {"activation_scheme", "scale_fmt"});
  fields.unused(Kind::list, {"modules_to_not_convert"});
  fields.finish();
}

void check_mxfp4(Fields fields) {
  fields.expect("quant_method", "mxfp4", false);
  fields.unused(Kind::list, {"modules_to_not_convert"});
  fields.finish();
}

}  // namespace sluice::model
