// Jobs: what was taken is done, once, whatever happens to the process.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "server/asked.h"
#include "server/client.h"
#include "server/folder.h"
#include "server/host.h"
#include "server/job_runner.h"
#include "server/job_store.h"
#include "server/multipart.h"
#include "server/served.h"

namespace sluice::server {
namespace {

StoredBatch batch_in_progress() {
  StoredBatch batch;
  batch.id = "batch_1";
  batch.status = "in_progress";
  return batch;
}

StoredJob job_named(const std::string& id, const std::string& batch = {}) {
  StoredJob job;
  job.id = id;
  job.batch = batch;
  job.custom_id = "c" + id;
  job.endpoint = "/v1/completions";
  job.body = "{}";
  return job;
}

TEST(JobStore, WhatRanWhenTheProcessEndedWaitsAgain) {
  const Folder folder;
  {
    const auto store = std::move(*JobStore::open(folder.path()));
    ASSERT_TRUE(store->add_job(job_named("1")));
    ASSERT_TRUE(store->add_job(job_named("2")));
    EXPECT_EQ((*store->begin_next())->id, "1");
  }
  const auto store = std::move(*JobStore::open(folder.path()));
  const auto again = *store->begin_next();
  EXPECT_EQ(again->id, "1") << "the oldest first";
  EXPECT_EQ(again->attempts, 2);
  StoredJob done = *again;
  done.http_status = 200;
  done.result = "{\"x\":1}";
  ASSERT_TRUE(store->finish(done, true));
  EXPECT_EQ((*store->job("1"))->status, "done");
  EXPECT_EQ((*store->job("1"))->result, "{\"x\":1}");
  const auto second = *store->begin_next();
  ASSERT_TRUE(store->put_back(*second, false));
  EXPECT_EQ((*store->job("2"))->attempts, 0);
  EXPECT_TRUE(*store->remove_job("2"));
  EXPECT_FALSE(*store->begin_next());
}

TEST(JobStore, OpensAFolderOfAnEarlierVersion) {
  const Folder folder;
  {
    Database earlier = std::move(*Database::open(folder.path() / "jobs.sqlite"));
    ASSERT_TRUE(earlier.run(R"(
        CREATE TABLE jobs(
          number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, batch TEXT NOT NULL,
          custom_id TEXT NOT NULL, endpoint TEXT NOT NULL, body TEXT NOT NULL, status TEXT NOT NULL,
          attempts INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL,
          http_status INTEGER NOT NULL DEFAULT 0, result TEXT NOT NULL DEFAULT '');
        INSERT INTO jobs(id, batch, custom_id, endpoint, body, status, attempts, created) VALUES
          ('1', '', '', '/v1/completions', '{}', 'running', 3, 7))"));
  }
  const auto store = std::move(*JobStore::open(folder.path()));
  StoredJob job = **store->begin_next();
  EXPECT_EQ(job.attempts, 4);
  EXPECT_EQ(job.created, 7);
  ASSERT_TRUE(store->note_progress(job, 64));
  EXPECT_EQ((*store->job("1"))->attempts, 1);
  EXPECT_EQ((*store->job("1"))->progress, 64);
}

TEST(Database, SaysSoWhereAValueIsTooLong) {
  const Folder folder;
  Database database = std::move(*Database::open(folder.path() / "any.sqlite"));
  ASSERT_TRUE(database.run("CREATE TABLE texts(text TEXT)"));
  Statement insert = std::move(*database.prepare("INSERT INTO texts VALUES(?)"));
  // It is refused by its length alone: there are no such bytes.
  const Status inserted = insert.bind(std::string_view("x", std::size_t{1} << 40)).run();
  ASSERT_FALSE(inserted);
  EXPECT_NE(inserted.error().message.find("too big"), std::string::npos)
      << inserted.error().message;
  EXPECT_EQ(*database.number("SELECT count(*) FROM texts"), 0);
}

TEST(JobStore, ABatchEndsWithItsLastJobAndHasBothFiles) {
  const Folder folder;
  const auto store = std::move(*JobStore::open(folder.path()));
  const StoredBatch batch = batch_in_progress();
  ASSERT_TRUE(store->add_batch(batch, {job_named("1", "batch_1"), job_named("2", "batch_1")}));
  for (const bool well : {true, false}) {
    EXPECT_EQ((*store->batch("batch_1"))->status, "in_progress");
    StoredJob job = **store->begin_next();
    job.http_status = well ? 200 : 400;
    job.result = well ? "{\"choices\":[]}" : "{\"error\":{}}";
    ASSERT_TRUE(store->finish(job, well));
  }
  const StoredBatch ended = **store->batch("batch_1");
  EXPECT_EQ(ended.status, "completed");
  EXPECT_EQ(ended.counts.total, 2);
  EXPECT_EQ(ended.counts.completed, 1);
  EXPECT_EQ(ended.counts.failed, 1);
  const TestJson output = TestJson::parse(*store->content(ended.output_file));
  EXPECT_EQ(output["custom_id"], "c1");
  EXPECT_EQ(output["response"]["status_code"], 200);
  EXPECT_EQ(TestJson::parse(*store->content(ended.error_file))["custom_id"], "c2");
}

TEST(JobStore, ABatchWithTooManyResultsFails) {
  constexpr std::int64_t kMost = 2000;
  const Folder folder;
  const auto store = std::move(*JobStore::open(folder.path(), kMost));
  const StoredBatch batch = batch_in_progress();
  ASSERT_TRUE(store->add_batch(batch, {job_named("1", "batch_1"), job_named("2", "batch_1")}));
  StoredJob job = **store->begin_next();
  job.result = '"' + std::string(kMost, 'x') + '"';
  ASSERT_TRUE(store->finish(job, true));
  job = **store->begin_next();
  job.result = "{}";
  ASSERT_TRUE(store->finish(job, false));
  const StoredBatch ended = **store->batch("batch_1");
  EXPECT_EQ(ended.status, "failed");
  EXPECT_EQ(ended.output_file, "");
  EXPECT_EQ(TestJson::parse(*store->content(ended.error_file))["custom_id"], "c2");
}

// Lines of many lengths, each of which goes into the file at its place.
TEST(JobStore, AFileOfResultsHasThemInOrder) {
  constexpr int kJobs = 40;
  const Folder folder;
  const auto store = std::move(*JobStore::open(folder.path()));
  const StoredBatch batch = batch_in_progress();
  std::vector<StoredJob> jobs;
  for (int i = 0; i < kJobs; ++i) jobs.push_back(job_named(std::to_string(i), "batch_1"));
  ASSERT_TRUE(store->add_batch(batch, jobs));
  std::string expected;
  for (int i = 0; i < kJobs; ++i) {
    StoredJob job = **store->begin_next();
    job.http_status = 200;
    job.result = '"' + std::string(static_cast<std::size_t>(i * i * 10), 'x') + '"';
    expected +=
        fmt::format(R"({{"id":"batch_req_{0}","custom_id":"c{0}","response":{{"status_code":200,)"
                    R"("request_id":"{0}","body":{1}}},"error":null}})",
                    i, job.result) +
        "\n";
    ASSERT_TRUE(store->finish(job, true));
  }
  const StoredBatch ended = **store->batch("batch_1");
  EXPECT_EQ(*store->content(ended.output_file), expected);
  const StoredFile file = **store->file(ended.output_file);
  EXPECT_EQ(file.bytes, static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ((*store->files())[0].bytes, file.bytes);
  ASSERT_TRUE(store->add_file({"file-1", "a", "batch", 0, 0}, "w\u00e4gen"));
  EXPECT_EQ((*store->file("file-1"))->bytes, 6) << "of bytes, not of characters";
  EXPECT_EQ(*store->content("file-1"), "w\u00e4gen");
}

/// What is still to come of a file; none if it cannot be had.
std::optional<std::string> rest_of(StoredContent& content, std::size_t bytes) {
  std::string rest;
  while (rest.size() < bytes) {
    const auto piece = content.next();
    if (!piece || piece->empty()) return std::nullopt;
    rest += *piece;
  }
  return rest;
}

TEST(JobStore, GivesAFileOutInPiecesWhileItIsUsed) {
  const Folder folder;
  const auto store = std::move(*JobStore::open(folder.path()));
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i);
  ASSERT_TRUE(store->add_file({"file-1", "a", "batch", 0, 0}, text));
  EXPECT_EQ(*store->open_content("file-2"), nullptr);
  const auto content = std::move(*store->open_content("file-1"));
  ASSERT_NE(content, nullptr);
  ASSERT_EQ(content->bytes(), text.size());
  const std::string first = *content->next();
  EXPECT_LT(first.size(), text.size());
  ASSERT_TRUE(store->add_batch(batch_in_progress(), {job_named("1", "batch_1")}));
  ASSERT_TRUE(store->add_file({"file-2", "b", "batch", 0, 0}, "other"));
  EXPECT_EQ(first + rest_of(*content, text.size() - first.size()).value_or(""), text);
}

TEST(JobStore, GivesOutNothingMoreOfAFileThatWasRemoved) {
  const Folder folder;
  const auto store = std::move(*JobStore::open(folder.path()));
  ASSERT_TRUE(store->add_file({"file-1", "a", "batch", 0, 0}, std::string(300'000, 'x')));
  const auto content = std::move(*store->open_content("file-1"));
  ASSERT_TRUE(content->next());
  EXPECT_TRUE(*store->remove_file("file-1"));
  EXPECT_FALSE(content->next());
  EXPECT_EQ(*store->open_content("file-1"), nullptr);
}

TEST(JobStore, ACancelledBatchKeepsWhatWasDone) {
  const Folder folder;
  const auto store = std::move(*JobStore::open(folder.path()));
  const StoredBatch batch = batch_in_progress();
  ASSERT_TRUE(store->add_batch(
      batch, {job_named("1", "batch_1"), job_named("2", "batch_1"), job_named("3", "batch_1")}));
  StoredJob first = **store->begin_next();
  first.result = "{}";
  ASSERT_TRUE(store->finish(first, true));
  const StoredJob second = **store->begin_next();
  EXPECT_TRUE(*store->cancel_batch("batch_1"));
  EXPECT_EQ((*store->batch("batch_1"))->status, "cancelling") << "one still runs";
  ASSERT_TRUE(store->put_back(second, false));
  EXPECT_EQ((*store->batch("batch_1"))->status, "cancelled");
  EXPECT_NE((*store->batch("batch_1"))->output_file, "");
  EXPECT_FALSE(*store->begin_next());
  EXPECT_FALSE(*store->cancel_batch("batch_1"));
}

TEST(Multipart, IsTakenApart) {
  const std::string type = "multipart/form-data; boundary=\"xyz\"";
  const std::string body =
      "--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n"
      "Content-Type: application/octet-stream\r\n\r\n{}\r\n--xy\r\n\r\n--xyz--\r\n";
  const auto parts = parse_multipart(type, body);
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].content, "batch");
  EXPECT_EQ((*parts)[1].file_name, "a.jsonl");
  EXPECT_EQ((*parts)[1].content, "{}\r\n--xy\r\n");
  for (std::size_t size = 0; size + 4 < body.size(); ++size) {
    EXPECT_FALSE(parse_multipart(type, body.substr(0, size))) << size;
  }
  EXPECT_FALSE(parse_multipart("application/json", body));
}

ServerOptions options_for(const Folder& folder) {
  ServerOptions options;
  options.host.engine.model = kNano;
  options.host.engine.threads = 1;
  options.host.engine.ram = std::uint64_t{512} << 20;
  options.port = 0;
  options.state_folder = folder.path();
  options.host.state_disk = std::uint64_t{256} << 20;  // whatever is free there
  return options;
}

TestJson request(const std::string& prompt) {
  return {{"model", "k3-nano"}, {"prompt", prompt}, {"max_tokens", 12}};
}

TestJson wait_for_end(int port, const std::string& path) {
  TestJson json;
  for (int i = 0; i < 20'000; ++i) {  // minutes: a sanitizer on a busy machine needs them
    json = get(port, path).json();
    const std::string status = json.value("status", "");
    if (status != "in_progress" && status != "queued" && status != "cancelling") return json;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "it does not end: " << json;
  return json;
}

std::string line_of(const std::string& id, const TestJson& body) {
  const TestJson line = {
      {"custom_id", id}, {"method", "POST"}, {"url", "/v1/completions"}, {"body", body}};
  return line.dump() + "\n";
}

TEST(AServerWithJobs, DoesBatches) {
  const Folder folder;
  const auto server = std::move(*Server::start(options_for(folder)));
  TestJson greedy = request("It was on a dreary night");
  greedy["temperature"] = 0;
  TestJson wrong = request("x");
  wrong["temperature"] = 9;
  const std::string file = upload(server->port(), line_of("a", greedy) + line_of("b", wrong) +
                                                      line_of("c", request("The sea")));
  const Answered created = post(server->port(), "/v1/batches",
                                {{"input_file_id", file},
                                 {"endpoint", "/v1/completions"},
                                 {"completion_window", "24h"},
                                 {"metadata", {{"what", "test"}}}});
  ASSERT_EQ(created.status, 200) << created.body;
  const TestJson batch =
      wait_for_end(server->port(), "/v1/batches/" + created.json()["id"].get<std::string>());
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_EQ(batch["request_counts"], (TestJson{{"total", 3}, {"completed", 2}, {"failed", 1}}));
  EXPECT_EQ(batch["metadata"]["what"], "test");
  const auto content = [&](const char* which) {
    return get(server->port(), "/v1/files/" + batch[which].get<std::string>() + "/content").body;
  };
  const std::string output = content("output_file_id");
  const TestJson first = TestJson::parse(output.substr(0, output.find('\n')));
  EXPECT_EQ(first["custom_id"], "a");
  EXPECT_EQ(first["response"]["body"]["choices"],
            post(server->port(), "/v1/completions", greedy).json()["choices"]);
  EXPECT_EQ(TestJson::parse(content("error_file_id"))["response"]["status_code"], 400);
  EXPECT_EQ(get(server->port(), "/v1/batches").json()["data"].size(), 1u);
  EXPECT_EQ(get(server->port(), "/v1/files?limit=2").json()["has_more"], true);
  const Answered again = post(server->port(), "/v1/batches",
                              {{"input_file_id", batch["output_file_id"]},
                               {"endpoint", "/v1/completions"},
                               {"completion_window", "24h"}});
  EXPECT_EQ(again.status, 400);
  EXPECT_EQ(again.json()["error"]["param"], "input_file_id") << again.body;
  EXPECT_NE(again.body.find("purpose"), std::string::npos) << again.body;
  EXPECT_EQ(ask(server->port(), "DELETE", "/v1/files/" + file).json()["deleted"], true);
  EXPECT_EQ(get(server->port(), "/v1/files/" + file).status, 404);

  const std::string twice = upload(server->port(), line_of("a", greedy) + line_of("a", greedy));
  const Answered refused = post(
      server->port(), "/v1/batches",
      {{"input_file_id", twice}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("line 2"), std::string::npos);
}

/// A request for an answer of so many tokens.
TestJson long_chat(std::size_t tokens) {
  return {{"model", "k3-nano"},
          {"messages", {{{"role", "user"}, {"content", "A whale?"}}}},
          {"max_tokens", tokens},
          {"logit_bias", never_ending()}};
}

/// Asks for such an answer in the background; its id.
std::string keep_long_chat(int port, std::size_t tokens) {
  TestJson body = long_chat(tokens);
  body["background"] = true;
  const Answered kept = post(port, kChat, body);
  EXPECT_EQ(kept.status, 202) << kept.body;
  return kept.json().value("id", "");
}

TEST(AServerWithJobs, RefusesABatchWithAStream) {
  const Folder folder;
  const auto server = std::move(*Server::start(options_for(folder)));
  TestJson streamed = request("x");
  streamed["stream"] = true;
  const std::string file =
      upload(server->port(), line_of("a", request("x")) + line_of("b", streamed));
  const Answered created = post(
      server->port(), "/v1/batches",
      {{"input_file_id", file}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}});
  EXPECT_EQ(created.status, 400);
  EXPECT_EQ(created.json()["error"]["message"],
            "input_file_id: line 2.body.stream: a request of a batch has no stream");
  EXPECT_EQ(created.json()["error"]["param"], "input_file_id");
}

TEST(AServerWithJobs, GivesFilesBackAsTheyCame) {
  const Folder folder;
  const auto server = std::move(*Server::start(options_for(folder)));
  for (const std::size_t bytes : std::vector<std::size_t>{0, 1, 65'536, 300'000}) {
    const std::string content(bytes, 'x');
    const std::string file = upload(server->port(), content);
    const Answered answer = get(server->port(), "/v1/files/" + file + "/content");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-length"), std::to_string(bytes));
    EXPECT_EQ(answer.body, content);
  }
}

TEST(AServerWithJobs, KeepsRequestsInTheBackground) {
  const Folder folder;
  std::string id;
  {
    const auto server = std::move(*Server::start(options_for(folder)));
    id = keep_long_chat(server->port(), 600);
  }
  // The server has ended before the answer did; another one goes on.
  const auto server = std::move(*Server::start(options_for(folder)));
  const TestJson answer = wait_for_end(server->port(), "/v1/chat/completions/" + id);
  EXPECT_EQ(answer["status"], "completed") << answer;
  EXPECT_EQ(answer["id"], id);
  EXPECT_EQ(answer["choices"].size(), 1u);
  const std::string path = "/v1/chat/completions/" + id;
  EXPECT_EQ(ask(server->port(), "DELETE", path).json()["deleted"], true);
  EXPECT_EQ(get(server->port(), path).status, 404);
}

constexpr std::size_t kLongTokens = 1000;

/// Keeps a job in the folder, and begins it as often as a process would that is killed each time.
void begin_and_die(const Folder& folder, const std::string& id, int times) {
  StoredJob job;
  job.id = id;
  job.endpoint = kChat;
  job.body = long_chat(kLongTokens).dump();
  for (int i = 0; i < times; ++i) {
    const auto store = std::move(*JobStore::open(folder.path()));
    if (i == 0) {
      ASSERT_TRUE(store->add_job(job));
    }
    ASSERT_TRUE((*store->begin_next()).has_value());
  }
}

/// What such a process had written of the job's answer: at least the first tokens of it.
void leave_checkpoint(const Folder& folder, const std::string& id) {
  HostOptions options = options_for(folder).host;
  options.state_folder = folder.path() / "states";
  const auto host = std::move(*Host::start(options));
  auto asked = read_asked(kChat, long_chat(kLongTokens), host->model(), id, seed_of(id));
  ASSERT_TRUE(asked) << asked.error().message;
  Generation& plan = asked->generation;
  plan.key = host->model().key_of(seed_of(id), 0);
  plan.choices = 2;  // the end of the first of several is written, should the drive be that slow
  const auto task = std::make_shared<Task>(id, "jobs", plan);
  ASSERT_TRUE(host->worker().submit(task));
  for (bool ends = false; !ends && host->worker().progress(plan.key) == 0;) {
    const auto event = task->next(std::chrono::milliseconds(1));
    ends =
        event && (event->kind == TaskEvent::Kind::done || event->kind == TaskEvent::Kind::failed);
  }
}

/// Tokens whose time since the one before was measured: those that this server computed itself.
std::size_t computed(int port) {
  const std::string metrics = get(port, "/metrics").body;
  const std::string name = "\nsluice_inter_token_seconds_count ";
  return std::stoul(metrics.substr(metrics.find(name) + name.size()));
}

TEST(AServerWithJobs, SetsAsideOnlyWhatDoesNotComeOn) {
  const std::string path = std::string(kChat) + "/chatcmpl-";
  const Folder folder;
  begin_and_die(folder, "1", 30);
  leave_checkpoint(folder, "1");
  {
    const auto server = std::move(*Server::start(options_for(folder)));
    EXPECT_EQ(wait_for_end(server->port(), path + "1")["status"], "completed")
        << "it had come on since it was first begun";
    EXPECT_LE(computed(server->port()), kLongTokens - 64) << "and goes on from there";
  }
  begin_and_die(folder, "2", 30);  // nothing shows progress of this one
  const auto server = std::move(*Server::start(options_for(folder)));
  const TestJson failed = wait_for_end(server->port(), path + "2");
  EXPECT_EQ(failed["status"], "failed") << failed;
  EXPECT_NE(failed.dump().find("too_many_attempts"), std::string::npos) << failed;
}

// What ends the server may come between a batch's cancelling and the end of its last job, as it may
// come between the beginning of a job and its name being known to those who cancel.
TEST(AServerWithJobs, DoesNothingOfABatchThatWasCancelled) {
  const Folder folder;
  {
    const auto store = std::move(*JobStore::open(folder.path()));
    const StoredBatch batch = batch_in_progress();
    StoredJob job = job_named("1", "batch_1");
    job.body = request("The sea").dump();
    ASSERT_TRUE(store->add_batch(batch, {job}));
    ASSERT_TRUE(*store->begin_next());
    ASSERT_TRUE(*store->cancel_batch("batch_1"));
  }
  const auto server = std::move(*Server::start(options_for(folder)));
  const TestJson batch = wait_for_end(server->port(), "/v1/batches/batch_1");
  EXPECT_EQ(batch["status"], "cancelled");
  EXPECT_EQ(batch["request_counts"]["completed"], 0) << batch;
}

TEST(AServerWithJobs, KeepsNumbersAsTheyWereWritten) {
  constexpr std::string_view kLong = "123456789012345678901234567890";
  const auto body = [&](std::string_view more) {
    return fmt::format(
        R"({{"model":"k3-nano","messages":[{{"role":"user","content":"A whale?"}}],"max_tokens":1,)"
        R"("tools":[{{"type":"function","function":{{"name":"f","parameters":{{"type":"object",)"
        R"("properties":{{"n":{{"type":"integer","maximum":{}}}}}}}}}}}]{}}})",
        kLong, more);
  };
  const Folder folder;
  const auto server = std::move(*Server::start(options_for(folder)));
  const std::string path = "/v1/chat/completions";
  const TestJson direct = ask(server->port(), "POST", path, body("")).json();
  const TestJson kept = ask(server->port(), "POST", path, body(R"(,"background":true)")).json();
  const TestJson later = wait_for_end(server->port(), path + "/" + kept["id"].get<std::string>());
  EXPECT_EQ(later["usage"]["prompt_tokens"], direct["usage"]["prompt_tokens"]) << direct << later;

  std::string line = line_of("a", TestJson());
  line.replace(line.find("null"), 4, body(""));
  line.replace(line.find("/v1/completions"), 15, path);
  const std::string batch = fmt::format(
      R"({{"input_file_id":"{}","endpoint":"{}","completion_window":"24h","metadata":{{"n":{}}}}})",
      upload(server->port(), line), path, kLong);
  const Answered created = ask(server->port(), "POST", "/v1/batches", batch);
  EXPECT_NE(created.body.find(fmt::format("\"metadata\":{{\"n\":{}}}", kLong)), std::string::npos)
      << created.body;
  const TestJson ended =
      wait_for_end(server->port(), "/v1/batches/" + created.json()["id"].get<std::string>());
  const std::string output = ended["output_file_id"].get<std::string>();
  const TestJson result = get(server->port(), "/v1/files/" + output + "/content").json();
  EXPECT_EQ(result["response"]["body"]["usage"]["prompt_tokens"], direct["usage"]["prompt_tokens"]);
}

TEST(AServerWithJobs, SaysNoWithoutAStateFolder) {
  const Folder folder;
  ServerOptions options = options_for(folder);
  options.state_folder.clear();
  const auto server = std::move(*Server::start(options));
  EXPECT_EQ(get(server->port(), "/v1/files").status, 404);
  const Answered refused =
      post(server->port(), "/v1/chat/completions", {{"model", "k3-nano"}, {"background", true}});
  EXPECT_EQ(refused.json()["error"]["param"], "background");
}

}  // namespace
}  // namespace sluice::server
