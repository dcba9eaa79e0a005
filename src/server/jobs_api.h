// OpenAI's files and batches, and chats in the background: requests that outlive their clients.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/http_message.h"
#include "server/job_runner.h"
#include "server/job_store.h"
#include "server/parsing.h"
#include "server/served_model.h"
#include "text/json.h"

namespace sluice::server {

struct ApiReply {
  std::string body;
  std::string type = "application/json";
  std::unique_ptr<StoredContent> content = nullptr;  ///< the body, if it is long
};

class JobsApi {
 public:
  JobsApi(JobStore& store, JobRunner& runner, const ServedModel& model, Parsing& parsing);

  /// None if the path is not one of these: /v1/files..., /v1/batches..., and
  /// /v1/chat/completions/ID.
  std::optional<ApiResult<ApiReply>> handle(const HttpRequest& request);

  /// A chat request (without `background`) that is to be kept for later.
  struct Chat {
    StoredJob job;
    std::string reply;  ///< once it is kept
  };
  /// The caller holds Parsing::one_at_a_time.
  ApiResult<Chat> read_chat(const text::Json& body);
  ApiResult<ApiReply> keep(Chat chat);

 private:
  ApiResult<ApiReply> files(const HttpRequest& request, std::string_view rest);
  ApiResult<ApiReply> upload(const HttpRequest& request);
  ApiResult<ApiReply> batches(const HttpRequest& request, std::string_view rest);
  ApiResult<ApiReply> create_batch(const HttpRequest& request);
  ApiResult<StoredBatch> read_batch(const HttpRequest& request);
  ApiResult<std::vector<StoredJob>> read_lines(const std::string& content,
                                               const std::string& endpoint,
                                               const std::string& batch);
  ApiResult<ApiReply> chats(const HttpRequest& request, const std::string& id);
  std::string new_id(const char* prefix);

  JobStore& store_;
  JobRunner& runner_;
  const ServedModel& model_;
  Parsing& parsing_;
  std::atomic<std::uint64_t> next_id_;
};

}  // namespace sluice::server
