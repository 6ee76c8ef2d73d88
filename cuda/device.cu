#include "device.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "launch.cuh"

namespace fastdl::cuda {

namespace {

thread_local Place here;

}  // namespace

const Place& place() { return here; }

#if defined(__CUDACC__)

namespace {

void check(const char* name, const char* wanted, cudaError_t error) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // reported here, so not to be found again by the next who asks
  if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw std::runtime_error("[" + std::string(name) + "] expected " + wanted + ", got: " + cudaGetErrorString(error));
}

// Whether the device gives and takes memory in the order of a stream. Else it is given and taken at once, and taking it
// waits for the device.
bool has_pool() {
  int device = 0, pools = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device) == cudaSuccess && pools;
}

}  // namespace

int enter(const Place& place) {
  int before = 0;
  check("cuda", "a CUDA device", cudaGetDevice(&before));
  if (before != place.device) check("cuda", "the device of the arrays", cudaSetDevice(place.device));
  here = place;
  return before;
}

void leave(int before) {
  if (before != here.device) cudaSetDevice(before);
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

int device_of(const void* memory) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  const bool device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return device ? attributes.device : -1;
}

void* allocate(const char* name, std::size_t bytes, Stream stream) {
  void* memory = nullptr;
  check(name, "device memory", has_pool() ? cudaMallocAsync(&memory, bytes, stream) : cudaMalloc(&memory, bytes));
  return memory;
}

void release(void* memory, Stream stream) noexcept {
  if (has_pool())
    cudaFreeAsync(memory, stream);
  else
    cudaFree(memory);
}

void copy_to_device(const char* name, void* to, const void* from, std::size_t bytes, Stream stream) {
  check(name, "a copy to the device", cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

void copy_to_host(const char* name, void* to, const void* from, std::size_t bytes, Stream stream) {
  check(name, "a copy from the device", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
  check(name, "the kernels to end", cudaStreamSynchronize(stream));
}

void copy_on_device(const char* name, void* to, const void* from, std::size_t bytes, Stream stream) {
  check(name, "a copy on the device", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

void set_zero(const char* name, void* memory, std::size_t bytes, Stream stream) {
  check(name, "to clear device memory", cudaMemsetAsync(memory, 0, bytes, stream));
}

void wait_for(const char* name, Stream other, Stream stream) {
  cudaEvent_t event;
  check(name, "an event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  cudaError_t error = cudaEventRecord(event, other);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(stream, event, 0);
  cudaEventDestroy(event);
  check(name, "to wait for the stream of an array", error);
}

void* allocate_managed(const char* name, std::size_t bytes) {
  void* memory = nullptr;
  check(name, "device memory", cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal));
  return memory;
}

void release_managed(void* memory) noexcept { cudaFree(memory); }

void synchronize(const char* name) { check(name, "the kernels to end", cudaDeviceSynchronize()); }

#else  // the emulation: one device, whose memory is main memory between two guards

namespace {

constexpr std::size_t guard = 256;  // also the alignment of CUDA's allocations
constexpr unsigned char untouched = 0xa5;

struct Memory {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> given;
  std::string fault;
};

Memory& memory() {
  static Memory* const all = new Memory;  // outlives whatever is released at exit
  return *all;
}

// What was found at a release, where nothing can be thrown.
void report_fault() {
  const std::lock_guard lock(memory().mutex);
  if (!memory().fault.empty()) throw std::runtime_error(std::exchange(memory().fault, ""));
}

void check_inside(const char* name, const void* address, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  auto next = memory().given.upper_bound(start);
  if (next != memory().given.begin() && start + bytes <= (--next)->first + next->second) return;
  throw std::runtime_error("[" + std::string(name) + "] expected device memory, got another address");
}

}  // namespace

int enter(const Place& place) {
  here = place;
  emulation::machine.stream = place.stream;
  return place.device;
}

void leave(int) { report_fault(); }

int device_count() { return 1; }

int device_of(const void* address) {
  const std::lock_guard lock(memory().mutex);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  auto next = memory().given.upper_bound(start);
  return next != memory().given.begin() && start < (--next)->first + next->second ? 0 : -1;
}

void* allocate(const char*, std::size_t bytes, Stream) {
  report_fault();
  auto* const start = static_cast<unsigned char*>(::operator new(bytes + 2 * guard, std::align_val_t(guard)));
  std::memset(start, untouched, bytes + 2 * guard);
  std::memset(start + guard, 0xff, bytes);
#if defined(FASTDL_EMULATION_ASAN)
  __asan_poison_memory_region(start, guard);
  __asan_poison_memory_region(start + guard + bytes, guard);
#endif
  const std::lock_guard lock(memory().mutex);
  memory().given[reinterpret_cast<std::uintptr_t>(start + guard)] = bytes;
  return start + guard;
}

void release(void* address, Stream) noexcept {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().given.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == memory().given.end()) {
    memory().fault = "expected to release device memory, got another address";
    return;
  }
  const std::size_t bytes = found->second;
  memory().given.erase(found);
  auto* const start = static_cast<unsigned char*>(address) - guard;
#if defined(FASTDL_EMULATION_ASAN)
  __asan_unpoison_memory_region(start, bytes + 2 * guard);
#endif
  for (std::size_t i = 0; i < guard; ++i)
    if (start[i] != untouched || start[guard + bytes + i] != untouched)
      memory().fault = "expected writes within " + std::to_string(bytes) + " bytes of device memory, got one outside";
  ::operator delete(start, std::align_val_t(guard));
}

void copy_to_device(const char* name, void* to, const void* from, std::size_t bytes, Stream) {
  check_inside(name, to, bytes);
  std::memcpy(to, from, bytes);
}

void copy_to_host(const char* name, void* to, const void* from, std::size_t bytes, Stream) {
  check_inside(name, from, bytes);
  std::memcpy(to, from, bytes);
}

void copy_on_device(const char* name, void* to, const void* from, std::size_t bytes, Stream) {
  check_inside(name, to, bytes);
  check_inside(name, from, bytes);
  std::memmove(to, from, bytes);
}

void set_zero(const char* name, void* address, std::size_t bytes, Stream) {
  check_inside(name, address, bytes);
  std::memset(address, 0, bytes);
}

void wait_for(const char*, Stream, Stream) {}

void* allocate_managed(const char* name, std::size_t bytes) { return allocate(name, bytes, nullptr); }

void release_managed(void* address) noexcept { release(address, nullptr); }

void synchronize(const char*) { report_fault(); }

#endif

}  // namespace fastdl::cuda
