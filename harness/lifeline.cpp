// SPDX-License-Identifier: Apache-2.0
#include "harness/lifeline.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/text.hpp"

namespace harness {

namespace {

constexpr double beat_seconds = 0.25;
constexpr double silence_seconds = 1.5;  // without a beat: more than a busy machine holds up a thread
constexpr double meeting_seconds = 30;
constexpr double grace_seconds =
    0.3;  // after a signal or a failure: a death elsewhere may be the cause, and names itself
constexpr double last_words_seconds = 5;  // for rank 0 to say why, before others leave by themselves

// Where the handler of SIGTERM writes, so that the thread hears of it: a launcher sends it to the others when one of
// its processes has died.
std::atomic<int> signalled{-1};
extern "C" void tell_signalled(int) {
  const char byte = 't';
  const int pipe = signalled.load();
  if (pipe >= 0) [[maybe_unused]]
    const auto written = write(pipe, &byte, 1);
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Addresses (IPv4) of this host, the loopback's last: whoever is on the same host reaches it by any.
std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {"127.0.0.1"};
  for (const ifaddrs* each = all; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text, sizeof text);
    if (std::string_view(text).starts_with("127.")) continue;
    found.emplace_back(text);
  }
  freeifaddrs(all);
  found.emplace_back("127.0.0.1");
  return found;
}

std::string own_end(int socket) {
  sockaddr_in own{};
  socklen_t length = sizeof own;
  char text[INET_ADDRSTRLEN] = "127.0.0.1";
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    inet_ntop(AF_INET, &own.sin_addr, text, sizeof text);
  }
  return text;
}

bool readable(int socket, double seconds) {
  pollfd one{socket, POLLIN, 0};
  return poll(&one, 1, static_cast<int>(seconds * 1000)) > 0;
}

bool send_line(int socket, const std::string& line) {
  const std::string text = one_line(line) + '\n';
  return send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(text.size());
}

// A line of a connection that is being made, byte by byte; empty where none comes in time.
std::string read_line(int socket, double seconds) {
  std::string line;
  for (char byte = 0; readable(socket, seconds) && recv(socket, &byte, 1, 0) == 1 && byte != '\n';) line += byte;
  return line;
}

// Connected within the time, or -1.
int connect_to(const std::string& address, int port, double seconds) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &there.sin_addr);
  int error = connect(socket, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd one{socket, POLLOUT, 0};
    socklen_t length = sizeof error;
    if (poll(&one, 1, static_cast<int>(seconds * 1000)) <= 0 ||
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
      error = ETIMEDOUT;
    }
  }
  if (error == 0) {
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
    return socket;
  }
  close(socket);
  return -1;
}

}  // namespace

// What the thread and its owner share.
class Lifeline::Work {
 public:
  explicit Work(const Job& job) : job_(job) {
    if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) throw Error("there are no file descriptors left");
    job.rank == 0 ? meet_all() : meet_first();
    for (Peer& peer : peers_) peer.heard = steady_seconds();
    signalled.store(pipe_[1]);
    struct sigaction action {};
    action.sa_handler = tell_signalled;
    sigaction(SIGTERM, &action, &signal_before_);
    thread_ = std::thread([this] { listen(); });
  }

  ~Work() {
    {
      const std::lock_guard lock(mutex_);
      for (const Peer& peer : peers_) send_line(peer.socket, "bye");
      leaving_ = true;
    }
    wake();
    thread_.join();
    sigaction(SIGTERM, &signal_before_, nullptr);
    signalled.store(-1);
    for (const Peer& peer : peers_) close(peer.socket);
    for (const int end : pipe_) close(end);
  }

  void on_end(std::function<void(const JobEnd&)> told) {
    const std::lock_guard lock(mutex_);
    told_ = std::move(told);
  }

  void at(std::string what) {
    const std::lock_guard lock(mutex_);
    at_ = std::move(what);
  }

  std::string address() const { return own_address_; }

  [[noreturn]] void end(const JobEnd& why) {
    // The thread may know better in a moment: a failure here can be the echo of a death there.
    // And where all fail alike, rank 0 is to say it.
    std::this_thread::sleep_for(std::chrono::duration<double>(job_.rank == 0 ? grace_seconds : 2 * grace_seconds));
    if (job_.rank == 0) end_all(why);
    {
      const std::lock_guard lock(mutex_);
      for (const Peer& peer : peers_) {
        send_line(peer.socket, "fail " + std::to_string(why.status) + (why.timed_out ? " t " : " f ") + why.reason);
      }
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(last_words_seconds));
    leave(why.status);
  }

 private:
  struct Peer {
    int rank = 0, socket = -1;
    std::string unread = {}, at = {};
    double heard = 0;
    bool left = false;
  };

  [[noreturn]] static void leave(int status) {
    std::fflush(nullptr);
    std::_Exit(status);
  }

  // Rank 0 alone.
  [[noreturn]] void end_all(JobEnd why) {
    if (ending_.exchange(true)) {  // another thread is at it, and ends this one too
      for (;;) pause();
    }
    std::function<void(const JobEnd&)> told;
    {
      const std::lock_guard lock(mutex_);
      told = told_;
      if (const std::string silent = silent_ones(); !silent.empty()) why.reason = silent + "; " + why.reason;
    }
    if (told) {
      told(why);
    } else {
      std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.reason.c_str());
    }
    {
      const std::lock_guard lock(mutex_);
      for (const Peer& peer : peers_) send_line(peer.socket, "end " + std::to_string(why.status));
    }
    leave(why.status);
  }

  std::string silent_ones() const {
    std::string found;
    for (const Peer& peer : peers_) {
      const double silent = steady_seconds() - peer.heard;
      if (peer.left || silent < silence_seconds) continue;
      if (!found.empty()) found += ", ";
      found += job_.name(peer.rank) + " is silent since " + format_seconds(silent) + whereabouts(peer.at);
    }
    return found;
  }

  static std::string whereabouts(const std::string& at) { return at.empty() ? "" : " (it was at: " + at + ")"; }

  // Rank 0 waits for all others; each says who it is and the word that it was given.
  void meet_all() {
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof any;
    if (listening < 0 || bind(listening, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
        ::listen(listening, job_.size) != 0 ||
        getsockname(listening, reinterpret_cast<sockaddr*>(&any), &length) != 0) {
      throw Error("rank 0 cannot listen for the other processes");
    }
    const std::string word = std::to_string(std::random_device{}());
    job_.broadcast(word + ' ' + std::to_string(ntohs(any.sin_port)) + ' ' + join(own_addresses(), " "));
    own_address_ = "127.0.0.1";
    const double until = steady_seconds() + meeting_seconds;
    while (static_cast<int>(peers_.size()) + 1 < job_.size) {
      if (!readable(listening, until - steady_seconds())) {
        throw Error("only " + std::to_string(peers_.size() + 1) + " of " + std::to_string(job_.size) +
                    " processes reach rank 0 over TCP");
      }
      const int fresh = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
      const std::vector<std::string> words = split(read_line(fresh, 1), ' ');
      const auto rank = words.size() == 2 && words[0] == word ? parse_integer(words[1], 1) : std::nullopt;
      if (!rank || !send_line(fresh, "welcome")) {
        close(fresh);
        continue;
      }
      peers_.push_back({.rank = static_cast<int>(*rank), .socket = fresh});
      if (const std::string end = own_end(fresh); end != "127.0.0.1") own_address_ = end;
    }
    close(listening);
  }

  void meet_first() {
    const std::vector<std::string> words = split(job_.broadcast(""), ' ');  // word, port, addresses
    for (std::size_t i = 2; i < words.size(); ++i) {
      const int fresh = connect_to(words[i], static_cast<int>(parse_integer(words[1], 0).value_or(0)), 3);
      if (fresh < 0) continue;
      if (send_line(fresh, words[0] + ' ' + std::to_string(job_.rank)) && read_line(fresh, 10) == "welcome") {
        peers_.push_back({.rank = 0, .socket = fresh});
        own_address_ = own_end(fresh);
        return;
      }
      close(fresh);
    }
    throw Error(job_.name(job_.rank) + " does not reach rank 0 over TCP at any of its addresses");
  }

  void wake() const {
    const char byte = 'w';
    [[maybe_unused]] const auto written = write(pipe_[1], &byte, 1);
  }

  void listen() {
    for (double next = 0;;) {
      std::vector<pollfd> sockets{{pipe_[0], POLLIN, 0}};
      for (const Peer& peer : peers_) sockets.push_back({peer.left ? -1 : peer.socket, POLLIN, 0});
      poll(sockets.data(), sockets.size(), static_cast<int>(beat_seconds * 1000));
      const std::string signal = drain_pipe();
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (sockets[i + 1].revents != 0) hear(peers_[i]);
      }
      const bool terminated = signal.find('t') != std::string::npos;
      if (terminated && terminated_at_ < 0) terminated_at_ = steady_seconds();
      if (terminated_at_ >= 0 && steady_seconds() > terminated_at_ + grace_seconds) terminate();
      const std::lock_guard lock(mutex_);
      if (leaving_) return;
      if (steady_seconds() < next) continue;
      next = steady_seconds() + beat_seconds;
      for (const Peer& peer : peers_) {
        if (!peer.left) send_line(peer.socket, "at " + at_);
      }
    }
  }

  std::string drain_pipe() const {
    char bytes[16];
    const auto count = read(pipe_[0], bytes, sizeof bytes);
    return count > 0 ? std::string(bytes, static_cast<std::size_t>(count)) : "";
  }

  [[noreturn]] void terminate() {
    if (job_.rank != 0) leave(1);
    std::string reason = "ended by a signal (SIGTERM)";
    {
      const std::lock_guard lock(mutex_);
      reason += whereabouts(at_);
    }
    end_all({reason});
  }

  void hear(Peer& peer) {
    char bytes[4096];
    const auto count = recv(peer.socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (count <= 0) return lose(peer);
    peer.unread.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end; (end = peer.unread.find('\n')) != std::string::npos; peer.unread.erase(0, end + 1)) {
      understand(peer, peer.unread.substr(0, end));
    }
  }

  void understand(Peer& peer, const std::string& line) {
    std::unique_lock lock(mutex_);
    peer.heard = steady_seconds();
    if (line == "bye") {
      peer.left = true;
    } else if (line.starts_with("at ")) {
      peer.at = line.substr(3);
    } else if (line.starts_with("end ")) {
      leave(std::atoi(line.c_str() + 4));
    } else if (line.starts_with("fail ")) {
      lock.unlock();
      const std::size_t kind = line.find(' ', 5) + 1;
      end_all({job_.name(peer.rank) + ": " + line.substr(kind + 2), line[kind] == 't', std::atoi(line.c_str() + 5)});
    }
  }

  void lose(Peer& peer) {
    if (job_.rank != 0) leave(1);  // without rank 0 nobody says or writes anything any more
    end_all({job_.name(peer.rank) + " ended" + whereabouts(peer.at)});
  }

  const Job job_;
  std::vector<Peer> peers_;
  std::string own_address_;
  int pipe_[2] = {-1, -1};
  std::mutex mutex_;
  std::function<void(const JobEnd&)> told_;  // guarded by mutex_, as the three below and what is known of the peers
  std::string at_;
  bool leaving_ = false;
  double terminated_at_ = -1;
  std::atomic<bool> ending_{false};
  struct sigaction signal_before_ {};
  std::thread thread_;
};

Lifeline::Lifeline(const Job& job) : work_(std::make_unique<Work>(job)) {}
Lifeline::~Lifeline() = default;
void Lifeline::on_end(std::function<void(const JobEnd&)> told) { work_->on_end(std::move(told)); }
void Lifeline::at(std::string what) { work_->at(std::move(what)); }
void Lifeline::end(const JobEnd& why) { work_->end(why); }
std::string Lifeline::address() const { return work_->address(); }

}  // namespace harness
