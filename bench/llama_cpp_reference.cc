// What bench/llama_cpp.py asks of llama.cpp: built against its library there, never by CMake.
//   llama_cpp_reference MODEL THREADS greedy COUNT ID,ID,...
//   llama_cpp_reference MODEL THREADS perplexity WINDOW ID,ID,...
//   llama_cpp_reference MODEL THREADS decode COUNT ID,ID,...
//   llama_cpp_reference MODEL THREADS quantize FILE_TYPE OUT
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::vector<llama_token> ids_of(const char* list) {
  std::vector<llama_token> ids;
  for (char* at = const_cast<char*>(list); *at != 0; at += *at == ',' ? 1 : 0) {
    ids.push_back(static_cast<llama_token>(std::strtol(at, &at, 10)));
  }
  return ids;
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "llama.cpp: %s failed\n", what);
  std::exit(1);
}

// From so many positions on, a llama.cpp with BLAS multiplies floats; below, it rounds them to 8
// bits.
constexpr int kFloatsFrom = 32;

void add(llama_batch& batch, llama_token token, int position, int sequence, bool logits) {
  const int i = batch.n_tokens++;
  batch.token[i] = token;
  batch.pos[i] = position;
  batch.n_seq_id[i] = 1;
  batch.seq_id[i][0] = sequence;
  batch.logits[i] = logits;
}

/// Feeds tokens from `position` on; logits of all of them or of the last. With `fill` there are
/// kFloatsFrom positions at least: those beside `ids` belong to a sequence that nobody looks at.
void feed(llama_context* context, const std::vector<llama_token>& ids, int position, bool all,
          bool fill = false) {
  const int size = static_cast<int>(ids.size());
  llama_batch batch = llama_batch_init(std::max(size, kFloatsFrom), 0, 1);
  for (int i = 0; i < size; ++i) {
    add(batch, ids[static_cast<size_t>(i)], position + i, 0, all || fill || i + 1 == size);
  }
  if (fill) llama_memory_seq_rm(llama_get_memory(context), 1, -1, -1);
  for (int i = size; fill && i < kFloatsFrom; ++i) add(batch, ids.front(), i - size, 1, true);
  if (llama_decode(context, batch) != 0) give_up("decode");
  llama_batch_free(batch);
}

/// The best token, and how far the second lies behind it.
std::pair<llama_token, float> best(const float* logits, int vocabulary) {
  const auto at = std::max_element(logits, logits + vocabulary);
  float second = -INFINITY;
  for (const float* each = logits; each != logits + vocabulary; ++each) {
    if (each != at) second = std::max(second, *each);
  }
  return {static_cast<llama_token>(at - logits), *at - second};
}

void greedy(llama_context* context, int vocabulary, int count, std::vector<llama_token> ids) {
  int position = 0;
  for (int i = 0; i < count; ++i) {
    feed(context, ids, position, false, true);
    const int last = static_cast<int>(ids.size()) - 1;
    position += last + 1;
    const auto [token, margin] = best(llama_get_logits_ith(context, last), vocabulary);
    std::printf("%d %.6f\n", token, static_cast<double>(margin));
    ids = {token};
  }
}

void perplexity(llama_context* context, int vocabulary, size_t window,
                const std::vector<llama_token>& ids) {
  double sum = 0;
  size_t foretold = 0;
  for (size_t first = 0; first + 1 < ids.size(); first += window) {
    const size_t size = std::min(window, ids.size() - first);
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<llama_token> part(begin, begin + static_cast<std::ptrdiff_t>(size));
    llama_memory_clear(llama_get_memory(context), true);
    feed(context, part, 0, true);
    for (size_t i = 0; i + 1 < size; ++i, ++foretold) {
      const float* logits = llama_get_logits_ith(context, static_cast<int>(i));
      const double highest = *std::max_element(logits, logits + vocabulary);
      double total = 0;
      for (int v = 0; v < vocabulary; ++v) total += std::exp(logits[v] - highest);
      sum += highest + std::log(total) - logits[part[i + 1]];
    }
  }
  std::printf("%.6f\n", std::exp(sum / static_cast<double>(foretold)));
}

void decode(llama_context* context, int vocabulary, int count, std::vector<llama_token> ids) {
  feed(context, ids, 0, false);
  auto position = static_cast<int>(ids.size());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    const llama_token token = best(llama_get_logits_ith(context, -1), vocabulary).first;
    feed(context, {token}, position++, false);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%.3f\n", count / took.count());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) give_up("reading the arguments");
  const std::string command = arguments[3];
  const int number = std::atoi(arguments[4]);
  const int threads = std::atoi(arguments[2]);
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  if (command == "quantize") {
    llama_model_quantize_params how = llama_model_quantize_default_params();
    how.ftype = static_cast<llama_ftype>(number);
    how.nthread = threads;
    how.allow_requantize = true;
    return llama_model_quantize(arguments[1], arguments[5], &how) == 0 ? 0 : 1;
  }
  llama_model* const model = llama_model_load_from_file(arguments[1], llama_model_default_params());
  if (model == nullptr) give_up("loading the model");
  llama_context_params how = llama_context_default_params();
  // Of speed: as little memory as it needs for that, so that the most is left for the weights.
  how.n_seq_max = 2;
  how.kv_unified = true;
  how.n_ctx = command == "decode" ? 256 : 2048;
  how.n_batch = how.n_ubatch = command == "decode" ? 32 : 1024;
  how.n_threads = how.n_threads_batch = threads;
  llama_context* const context = llama_init_from_model(model, how);
  if (context == nullptr) give_up("making a context");
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const std::vector<llama_token> ids = ids_of(arguments[5]);
  if (command == "greedy") greedy(context, vocabulary, number, ids);
  if (command == "perplexity") perplexity(context, vocabulary, static_cast<size_t>(number), ids);
  if (command == "decode") decode(context, vocabulary, number, ids);
  llama_free(context);
  llama_model_free(model);
}
