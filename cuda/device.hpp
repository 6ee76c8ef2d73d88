// Device memory, streams and devices, as the host side of the CUDA backend uses them, in both worlds: over the CUDA
// runtime (device.cu compiled by nvcc), and over main memory in the emulation. What fails is thrown with the name of
// the public function in front: std::bad_alloc where memory is short, std::runtime_error for all else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace fastdl::cuda {

using Index = std::int64_t;
using Stream = CUstream_st*;

// Where the calls of this host thread run: the device and the stream of the arrays it was given. The Python layer
// enters before a call, which makes the device the current one of the runtime, and leaves after it.
struct Place {
  int device = 0;
  Stream stream = nullptr;
};
const Place& place();
inline Stream stream() { return place().stream; }
int enter(const Place& place);  // gives the device to go back to
void leave(int before);

int device_count();
// The device whose memory this is, or -1 for memory of the host.
int device_of(const void* memory);

// Memory for the time of a call, in the order of the stream: released while kernels that use it may still be queued.
void* allocate(const char* name, std::size_t bytes, Stream stream);
void release(void* memory, Stream stream) noexcept;

void copy_to_device(const char* name, void* to, const void* from, std::size_t bytes, Stream stream);
// Waits for all that was queued.
void copy_to_host(const char* name, void* to, const void* from, std::size_t bytes, Stream stream);
void copy_on_device(const char* name, void* to, const void* from, std::size_t bytes, Stream stream);
void set_zero(const char* name, void* memory, std::size_t bytes, Stream stream);
// What is queued from now on comes after what has been queued on `other`.
void wait_for(const char* name, Stream other, Stream stream);

// For tests: memory that the host may read and write as well, once all that was queued has ended.
void* allocate_managed(const char* name, std::size_t bytes);
void release_managed(void* memory) noexcept;
void synchronize(const char* name);

// Room for `count` elements on the device, uninitialised.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  Scratch(const char* name, Index count, Stream stream)
      : data_(count > 0 ? static_cast<T*>(allocate(name, std::size_t(count) * sizeof(T), stream)) : nullptr),
        count_(count),
        stream_(stream) {}
  // Filled from the host.
  Scratch(const char* name, const T* from, Index count, Stream stream) : Scratch(name, count, stream) {
    if (count > 0) copy_to_device(name, data_, from, bytes(), stream);
  }
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Scratch() {
    if (data_) release(data_, stream_);
  }

  T* data() const { return data_; }
  Index count() const { return count_; }
  std::size_t bytes() const { return std::size_t(count_) * sizeof(T); }

 private:
  T* data_ = nullptr;
  Index count_ = 0;
  Stream stream_ = nullptr;
};

}  // namespace fastdl::cuda
