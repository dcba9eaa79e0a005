#include "server/jobs_api.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <set>
#include <utility>

#include "server/asked.h"
#include "server/batch_lines.h"
#include "server/fields.h"
#include "server/multipart.h"
#include "server/request_parts.h"

namespace sluice::server {
namespace {

constexpr std::size_t kMostRequests = 50'000;  // of one batch, as OpenAI has it
constexpr std::size_t kListed = 20;
constexpr std::size_t kMostListed = 100;

tl::unexpected<ApiError> not_found(std::string_view what, std::string_view id,
                                   const std::string& param = "id") {
  return tl::unexpected(ApiError{404, fmt::format("there is no {} {}", what, id.substr(0, 100)),
                                 "invalid_request_error", param, "not_found"});
}

/// An error of the store.
tl::unexpected<ApiError> as_api(const Error& error) { return tl::unexpected(to_api_error(error)); }

#define STORE_ASSIGN(declaration, expression) \
  STORE_ASSIGN_NAMED(SLUICE_CONCAT(store_result_, __LINE__), declaration, expression)
#define STORE_ASSIGN_NAMED(name, declaration, expression) \
  auto name = (expression);                               \
  if (!name) return as_api(name.error());                 \
  declaration = std::move(*name)

/// What to_line() wrote.
Json parse_line(const std::string& line) {
  auto json = text::parse_json(line, "the database of jobs", ErrorKind::drive);
  return json ? std::move(*json) : Json();
}

/// The name of the model that a request asks for; empty if it does not say.
std::string model_of(const StoredJob& job) {
  const Json body = parse_line(job.body);
  const auto name = body.find("model");
  return name != body.end() && name->is_string() ? name->get<std::string>() : std::string();
}

ApiReply reply(const Json& json) { return {to_line(json)}; }

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json or_null(std::int64_t time) { return time == 0 ? Json() : Json(time); }

Json json_of(const StoredFile& file) {
  return {{"id", file.id},         {"object", "file"},
          {"bytes", file.bytes},   {"created_at", file.created},
          {"filename", file.name}, {"purpose", file.purpose},
          {"status", "processed"}};
}

Json errors_of(const StoredBatch& batch) {
  if (batch.status != "failed") return nullptr;
  const Json error = {{"code", "results_too_large"},
                      {"message", fmt::format("the results are longer than the {} bytes that a "
                                              "file may have; send the requests in several batches",
                                              JobStore::kMostBytes)},
                      {"param", nullptr},
                      {"line", nullptr}};
  return {{"object", "list"}, {"data", Json::array({error})}};
}

Json json_of(const StoredBatch& batch) {
  const auto ended_as = [&](const char* status) {
    return batch.status == status ? or_null(batch.ended) : Json();
  };
  return {{"id", batch.id},
          {"object", "batch"},
          {"endpoint", batch.endpoint},
          {"errors", errors_of(batch)},
          {"input_file_id", batch.input_file},
          {"completion_window", batch.window},
          {"status", batch.status},
          {"output_file_id", or_null(batch.output_file)},
          {"error_file_id", or_null(batch.error_file)},
          {"created_at", batch.created},
          {"in_progress_at", batch.created},
          {"completed_at", ended_as("completed")},
          {"cancelled_at", ended_as("cancelled")},
          {"failed_at", ended_as("failed")},
          {"request_counts",
           {{"total", batch.counts.total},
            {"completed", batch.counts.completed},
            {"failed", batch.counts.failed}}},
          {"metadata", batch.metadata.empty() ? Json() : parse_line(batch.metadata)}};
}

/// A page of a list: what follows `after`, at most `limit`.
template <class Item>
ApiResult<ApiReply> page_of(const std::vector<Item>& all, const HttpRequest& request) {
  std::size_t limit = kListed;
  if (const auto text = query_value(request.query, "limit"); text) {
    const char* const end = text->data() + text->size();
    const auto [rest, error] = std::from_chars(text->data(), end, limit);
    if (error != std::errc() || rest != end || limit < 1 || limit > kMostListed) {
      return refuse("limit", "must be from 1 to {}", kMostListed);
    }
  }
  auto at = all.begin();
  if (const auto after = query_value(request.query, "after"); after && !after->empty()) {
    at = std::find_if(at, all.end(), [&](const Item& item) { return item.id == *after; });
    if (at == all.end()) return not_found("item", *after);
    ++at;
  }
  Json data = Json::array();
  for (; at != all.end() && data.size() < limit; ++at) data.push_back(json_of(*at));
  Json list = {{"object", "list"}, {"data", data}, {"has_more", at != all.end()}};
  list["first_id"] = data.empty() ? Json() : data.front()["id"];
  list["last_id"] = data.empty() ? Json() : data.back()["id"];
  return reply(list);
}

tl::unexpected<ApiError> wrong_method(const char* allowed) {
  ApiError error = {405, fmt::format("this path only takes {}", allowed)};
  error.headers.emplace_back("Allow", allowed);
  return tl::unexpected(std::move(error));
}

}  // namespace

JobsApi::JobsApi(JobStore& store, JobRunner& runner, const ServedModel& model, Parsing& parsing)
    : store_(store), runner_(runner), model_(model), parsing_(parsing), next_id_(random_seed()) {}

std::optional<ApiResult<ApiReply>> JobsApi::handle(const HttpRequest& request) {
  const std::string_view path = request.path;
  const auto rest_of = [&](std::string_view start) -> std::optional<std::string_view> {
    if (path == start) return "";
    if (!path.starts_with(start) || path[start.size()] != '/') return std::nullopt;
    return path.substr(start.size() + 1);
  };
  if (const auto rest = rest_of("/v1/files")) return files(request, *rest);
  if (const auto rest = rest_of("/v1/batches")) return batches(request, *rest);
  const auto chat = rest_of(kChatPath);
  if (chat && !chat->empty()) return chats(request, std::string(*chat));
  return std::nullopt;
}

ApiResult<ApiReply> JobsApi::files(const HttpRequest& request, std::string_view rest) {
  if (rest.empty()) {
    if (request.method == "POST") return upload(request);
    if (request.method != "GET") return wrong_method("GET, POST");
    STORE_ASSIGN(const auto all, store_.files());
    return page_of(all, request);
  }
  const std::string id(rest.substr(0, rest.find('/')));
  const std::string_view verb = rest.substr(std::min(id.size() + 1, rest.size()));
  STORE_ASSIGN(const auto file, store_.file(id));
  if (!file || (!verb.empty() && verb != "content")) return not_found("file", rest);
  if (verb == "content") {
    if (request.method != "GET") return wrong_method("GET");
    STORE_ASSIGN(auto content, store_.open_content(id));
    if (!content) return not_found("file", id);
    return ApiReply{{}, "application/octet-stream", std::move(content)};
  }
  if (request.method == "GET") return reply(json_of(*file));
  if (request.method != "DELETE") return wrong_method("GET, DELETE");
  STORE_ASSIGN(const bool removed, store_.remove_file(id));
  return reply({{"id", id}, {"object", "file"}, {"deleted", removed}});
}

ApiResult<ApiReply> JobsApi::upload(const HttpRequest& request) {
  const std::string* const type = request.header("content-type");
  const auto parts = parse_multipart(type == nullptr ? "" : *type, request.body);
  if (!parts) {
    return tl::unexpected(ApiError{400, "a file comes as multipart/form-data: purpose and file"});
  }
  StoredFile file;
  std::string content;
  bool has_file = false;
  for (const FormPart& part : *parts) {
    if (part.name == "purpose") {
      file.purpose = part.content;
    } else if (part.name == "file") {
      has_file = true;
      file.name = part.file_name.substr(0, 256);
      content = part.content;
    } else {
      return refuse(part.name.substr(0, 80), "is not supported");
    }
  }
  if (file.purpose != "batch") return refuse("purpose", "must be \"batch\"");
  if (!has_file) return refuse("file", "is missing");
  file.id = new_id("file-");
  file.created = std::time(nullptr);
  file.bytes = static_cast<std::int64_t>(content.size());
  if (const Status added = store_.add_file(file, content); !added) return as_api(added.error());
  return reply(json_of(file));
}

ApiResult<ApiReply> JobsApi::batches(const HttpRequest& request, std::string_view rest) {
  if (rest.empty()) {
    if (request.method == "POST") return create_batch(request);
    if (request.method != "GET") return wrong_method("GET, POST");
    STORE_ASSIGN(const auto all, store_.batches());
    return page_of(all, request);
  }
  const std::string id(rest.substr(0, rest.find('/')));
  const std::string_view verb = rest.substr(std::min(id.size() + 1, rest.size()));
  if (verb == "cancel") {
    if (request.method != "POST") return wrong_method("POST");
    STORE_ASSIGN(const bool cancelled, store_.cancel_batch(id));
    if (cancelled) runner_.cancel(id);
  } else if (!verb.empty()) {
    return not_found("batch", rest);
  } else if (request.method != "GET") {
    return wrong_method("GET");
  }
  STORE_ASSIGN(const auto batch, store_.batch(id));
  if (!batch) return not_found("batch", id);
  return reply(json_of(*batch));
}

ApiResult<ApiReply> JobsApi::create_batch(const HttpRequest& request) {
  SLUICE_ASSIGN(StoredBatch batch, read_batch(request));
  STORE_ASSIGN(const auto file, store_.file(batch.input_file));
  if (!file) return not_found("file", batch.input_file, "input_file_id");
  if (file->purpose != "batch") {
    return refuse("input_file_id", "its purpose is {}, and must be batch", file->purpose);
  }
  STORE_ASSIGN(const std::string content, store_.content(batch.input_file));
  batch.id = new_id("batch_");
  batch.status = "in_progress";
  batch.created = std::time(nullptr);
  SLUICE_ASSIGN(const auto jobs, read_lines(content, batch.endpoint, batch.id));
  batch.counts.total = static_cast<std::int64_t>(jobs.size());
  if (const Status added = store_.add_batch(batch, jobs); !added) return as_api(added.error());
  runner_.wake();
  return reply(json_of(batch));
}

/// What a request for a batch says of it.
ApiResult<StoredBatch> JobsApi::read_batch(const HttpRequest& request) {
  const std::scoped_lock lock(parsing_.one_at_a_time);
  SLUICE_ASSIGN(const Json body, parse_body(request.body, parsing_.most_values));
  Fields fields(body);
  SLUICE_ASSIGN(const auto input, fields.text("input_file_id"));
  SLUICE_ASSIGN(const auto endpoint, fields.text("endpoint"));
  SLUICE_ASSIGN(const auto window, fields.text("completion_window"));
  const Json* const metadata = fields.get("metadata");
  SLUICE_TRY(fields.finish());
  if (!input) return refuse("input_file_id", "is missing");
  if (endpoint != kChatPath && endpoint != kCompletionsPath) {
    return refuse("endpoint", "must be {} or {}", kChatPath, kCompletionsPath);
  }
  if (window != "24h")
    return refuse("completion_window", "must be \"24h\"; it takes what it takes");
  if (metadata != nullptr && !metadata->is_object()) return refuse("metadata", "must be an object");
  StoredBatch batch;
  batch.endpoint = *endpoint;
  batch.input_file = *input;
  batch.window = *window;
  batch.metadata = metadata == nullptr ? "" : to_line(*metadata);
  return batch;
}

/// The requests of an input file. All lines must be requests; whether each is a good one its result
/// will say.
ApiResult<std::vector<StoredJob>> JobsApi::read_lines(const std::string& content,
                                                      const std::string& endpoint,
                                                      const std::string& batch) {
  std::vector<StoredJob> jobs;
  std::set<std::string, std::less<>> names;
  const auto take = [&](std::string_view text, std::size_t number) -> ApiStatus {
    const std::string where = fmt::format("input_file_id: line {}", number);
    const std::scoped_lock lock(parsing_.one_at_a_time);  // others may come between two lines
    SLUICE_ASSIGN(const BatchLine line, read_batch_line(text, where, parsing_.most_values));
    if (!names.insert(line.custom_id).second) return refuse(where + ".custom_id", "comes twice");
    if (line.url != endpoint) return refuse(where + ".url", "must be the batch's endpoint");
    if (jobs.size() == kMostRequests) return refuse("input_file_id", "more than {}", kMostRequests);
    StoredJob job;
    job.id = fmt::format("{}-{}", batch.substr(6), jobs.size());
    job.batch = batch;
    job.custom_id = line.custom_id;
    job.endpoint = endpoint;
    job.body = to_line(line.body);
    job.created = std::time(nullptr);
    jobs.push_back(std::move(job));
    return {};
  };
  if (ApiStatus taken = for_each_line(content, take); !taken) {
    taken.error().param = "input_file_id";  // the parameter of this request; the message has more
    return tl::unexpected(std::move(taken).error());
  }
  if (jobs.empty()) return refuse("input_file_id", "there is no request in the file");
  return jobs;
}

ApiResult<JobsApi::Chat> JobsApi::read_chat(const Json& body) {
  Chat chat;
  StoredJob& job = chat.job;
  job.id = new_id("");
  job.endpoint = kChatPath;
  job.created = std::time(nullptr);
  SLUICE_ASSIGN(const Asked asked, read_asked(kChatPath, body, model_, job.id, seed_of(job.id)));
  if (asked.stream) return refuse("stream", "a request in the background has no stream");
  job.body = to_line(body);
  chat.reply = to_line({{"id", asked.id},
                        {"object", "chat.completion"},
                        {"created", job.created},
                        {"model", model_.name_of(asked.generation.adapter)},
                        {"background", true},
                        {"status", "queued"}});
  return chat;
}

ApiResult<ApiReply> JobsApi::keep(Chat chat) {
  if (const Status added = store_.add_job(chat.job); !added) return as_api(added.error());
  runner_.wake();
  return ApiReply{std::move(chat.reply)};
}

ApiResult<ApiReply> JobsApi::chats(const HttpRequest& request, const std::string& id) {
  constexpr std::string_view kPrefix = "chatcmpl-";
  const std::string key = id.starts_with(kPrefix) ? id.substr(kPrefix.size()) : id;
  STORE_ASSIGN(const auto job, store_.job(key));
  if (!job || !job->batch.empty()) return not_found("background request", id);
  if (request.method == "DELETE") {
    STORE_ASSIGN(const bool removed, store_.remove_job(key));
    runner_.cancel(key);
    return reply({{"id", id}, {"object", "chat.completion.deleted"}, {"deleted", removed}});
  }
  if (request.method != "GET") return wrong_method("GET, DELETE");
  if (job->status == "done") {  // an object in one line, which may be long: it is not taken apart
    std::string answer = job->result.substr(0, job->result.rfind('}'));
    return ApiReply{std::move(answer.append(R"(,"background":true,"status":"completed"})"))};
  }
  const std::scoped_lock lock(parsing_.one_at_a_time);
  const std::string asked = model_of(*job);
  Json json = {{"id", id},
               {"object", "chat.completion"},
               {"created", job->created},
               {"model", asked.empty() ? model_.name : asked}};
  if (job->status == "failed") json["error"] = parse_line(job->result)["error"];
  json["background"] = true;
  json["status"] = job->status == "waiting"   ? "queued"
                   : job->status == "running" ? "in_progress"
                                              : job->status;
  return reply(json);
}

std::string JobsApi::new_id(const char* prefix) {
  return fmt::format("{}{:016x}", prefix, next_id_++ * 0x9e3779b97f4a7c15);
}

}  // namespace sluice::server
