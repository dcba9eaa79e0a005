// sluice serve: the model behind OpenAI's API.
#include <poll.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/adapter_options.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/interrupts.h"
#include "cli/output_check.h"
#include "cli/statistics_output.h"
#include "server/guard.h"
#include "server/http_server.h"
#include "server/server.h"

namespace sluice::cli {
namespace {

struct ServeOptions {
  ComputeOptions compute;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::size_t queue = 16;
  std::string key_file;
  bool no_auth = false;
  std::vector<std::string> allowed_hosts;
  std::optional<std::uint64_t> saved_states;
  std::string name;
  std::string state_folder;
  std::optional<std::uint64_t> state_disk;
  std::optional<std::uint64_t> state_write;
};

class Serve final : public Command {
 public:
  explicit Serve(CLI::App& app) {
    const std::string group = "Server";
    app.add_option("--host", options_.host,
                   "Address to listen on, in numbers; default: 127.0.0.1, this machine only")
        ->type_name("ADDRESS")
        ->group(group);
    add_count(app, "--port", options_.port, 0, 65535, "Port; 0: any that is free; default: 8080")
        ->group(group);
    app.add_option("--api-key-file", options_.key_file,
                   "File with the keys that clients must bring, one a line")
        ->type_name("FILE")
        ->group(group);
    app.add_flag("--no-auth", options_.no_auth,
                 "Let everybody in who reaches an address other than this machine's own")
        ->group(group);
    app.add_option("--allow-host", options_.allowed_hosts,
                   "A name by which clients may call the server; may be given several times")
        ->type_name("NAME")
        ->allow_extra_args(false)
        ->group(group);
    add_count(app, "--queue", options_.queue, 1, 1000,
              "Requests that may wait; more are refused with 429; default: 16")
        ->group(group);
    app.add_option("--name", options_.name, "The model's name for clients; default: its folder's")
        ->type_name("NAME")
        ->group(group);
    add_size(app, "--state-ram", options_.saved_states,
             "Memory of --ram for conversations that may go on, refused where there is no room for "
             "it; default: a sixteenth of --ram, or less")
        ->group(group);
    app.add_option("--state-dir", options_.state_folder,
                   "Folder for what outlives the server: jobs (files, batches, requests in the "
                   "background) and conversations; default: nothing does")
        ->type_name("DIR")
        ->group(group);
    add_size(app, "--state-disk", options_.state_disk,
             "Bytes of --state-dir for conversations and unfinished answers, the oldest out first; "
             "default: 16G, or a tenth of what is free there")
        ->group(group);
    add_size(app, "--state-write", options_.state_write,
             "Bytes per second, on average since the start, that are written there at most, half a "
             "minute's worth at once: drives wear out; default: 10M")
        ->group(group);
    add_adapters(app, options_.compute);
    add_compute_options(app, options_.compute, fmt::format("{}", kDefaultContext));
    add_drafts(app, options_.compute.drafts);
    app.footer(
        "Ctrl-C or SIGTERM ends the server, with exit code 0: clients are told, and with "
        "--state-dir\n"
        "states are written and jobs kept. The API is OpenAI's: /v1/chat/completions, "
        "/v1/completions,\n"
        "/v1/models, Anthropic's is /v1/messages; /health, /v1/status and /metrics are beside it, "
        "and\n"
        "a page at /. docs/server.md has the details.\n\n"
        "Examples:\n"
        "  sluice serve models/k3-nano --port 8080\n"
        "  sluice serve /drive/Kimi-K3 --ram 32G --ctx 32768\n"
        "  sluice serve /drive/Kimi-K3 --host 0.0.0.0 --api-key-file keys.txt");
  }

  Status execute() override {
    Interrupts::take_termination();
    server::ServerOptions options;
    SLUICE_TRY(check_outputs(options_.compute, {}, {options_.key_file}));
    SLUICE_TRY(admit(options));
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options_.compute));
    options.host.engine = engine_options(options_.compute, kDefaultContext);
    options.host.name = options_.name;
    options.host.queue = options_.queue;
    options.host.saved_states = options_.saved_states;
    options.address = options_.host;
    options.port = options_.port;
    options.allowed_hosts = options_.allowed_hosts;
    options.state_folder = options_.state_folder;
    options.host.state_disk = options_.state_disk;
    if (options_.state_disk && options_.state_folder.empty()) {
      return fail(ErrorKind::usage,
                  "--state-disk: needs --state-dir DIR, where that is to be kept");
    }
    if (options_.state_write) {
      options.host.state_write = *options_.state_write;
      if (options_.state_folder.empty()) {
        return fail(ErrorKind::usage,
                    "--state-write: needs --state-dir DIR, where that is written");
      }
    }
    SLUICE_ASSIGN(const auto server, server::Server::start(std::move(options)));
    Interrupts::watch();
    const bool is_ipv6 = options_.host.find(':') != std::string::npos;
    log_note("{} is served at http://{}{}{}:{}/v1 with a context of {}; Ctrl-C ends it",
             server->model_name(), is_ipv6 ? "[" : "", options_.host, is_ipv6 ? "]" : "",
             server->port(), server->context());
    wait_for_interrupt();
    log_note("the server ends");
    return statistics.write(server->statistics());
  }

 private:
  /// Who may use the server. Beyond this machine that must have been decided.
  Status admit(server::ServerOptions& options) const {
    SLUICE_ASSIGN(const bool only_this_machine, server::is_loopback(options_.host));
    if (!options_.key_file.empty()) {
      SLUICE_ASSIGN(options.keys, server::read_keys(options_.key_file));
      return {};
    }
    if (only_this_machine) return {};
    if (!options_.no_auth) {
      return fail(ErrorKind::usage,
                  "--host {}: other machines could use this server; give --api-key-file FILE, or "
                  "--no-auth if everybody may",
                  options_.host);
    }
    log_warning("everybody who reaches {} can use this server: no key is asked for", options_.host);
    return {};
  }

  static void wait_for_interrupt() {
    pollfd descriptor = {Interrupts::descriptor(), POLLIN, 0};
    while (::poll(&descriptor, 1, -1) < 0 && errno == EINTR) continue;
  }

  ServeOptions options_;
};

}  // namespace

Registered add_serve(CLI::App& program) {
  CLI::App* app = program.add_subcommand("serve", "Answer requests of OpenAI's API over HTTP");
  return {app, std::make_unique<Serve>(*app)};
}

}  // namespace sluice::cli
