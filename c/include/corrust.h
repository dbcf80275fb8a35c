/* corrust: correlators, beamformers, channelisers and autocorrelators on NVIDIA GPUs and CPUs.
 *
 * Made by cbindgen of the crate corrust-c (c/): changes belong there. docs/c.md explains the whole.
 *
 * - A function returns CORRUST_STATUS_OK, or another status, of which corrust_last_error has one sentence. No call ends the
 *   program, and a call that is refused changes nothing.
 * - A config is set to zero, then its size and what is to be other than by default. Texts end with a zero.
 * - A handle is used by one thread at a time, whichever; different handles by different threads at once.
 * - Pointers have to lead to as much memory as the function says; NULL is refused with a sentence.
 */

#ifndef CORRUST_H
#define CORRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A correlator, from corrust_correlator_new.
typedef struct corrust_correlator corrust_correlator;

// A beamformer, from corrust_beamformer_new.
typedef struct corrust_beamformer corrust_beamformer;

// A channeliser, from corrust_channeliser_new.
typedef struct corrust_channeliser corrust_channeliser;

// An autocorrelator, from corrust_autocorrelator_new.
typedef struct corrust_autocorrelator corrust_autocorrelator;

// Memory of a device, from corrust_buffer_new.
typedef struct corrust_buffer corrust_buffer;

// Status of a call. Where it is not `CORRUST_STATUS_OK`, `corrust_last_error` gives the reason.
typedef enum corrust_status {
  // The call succeeded.
  CORRUST_STATUS_OK = 0,
  // An argument, a member of a struct, or a shape that cannot be computed with.
  CORRUST_STATUS_INVALID = 1,
  // The device asked for is not there, or failed.
  CORRUST_STATUS_DEVICE = 2,
  // The device's or the host's memory is too small.
  CORRUST_STATUS_OUT_OF_MEMORY = 3,
  // A fault of the library itself. The handle that was used can only be freed.
  CORRUST_STATUS_INTERNAL = 4,
} corrust_status;

// Settings of an autocorrelator. Zero stands for a default, where there is one.
typedef struct corrust_autocorrelator_config {
  // sizeof (struct corrust_autocorrelator_config).
  size_t size;
  // Sensors of an instant.
  size_t sensors;
  // Groups of lags, each with bins of twice the length (default: 10).
  size_t groups;
  // Lags of a group (default: 32).
  size_t lags;
  // "bin-groups" (default) or "classic".
  const char *scheme;
  // "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
  const char *device;
  // "auto" (default), or a kernel's name.
  const char *kernel;
  // Pairs of sensors, [pair][2], the second of them delayed by the lag: a row each. NULL: each sensor with itself.
  const size_t *pairs;
  // Number of pairs.
  size_t pair_count;
} corrust_autocorrelator_config;

// A range of times, channels and inputs of which every sample is missing: `begin` counts, `end` does not. Channels or
// inputs from 0 to 0 are all of them.
typedef struct corrust_missing {
  // First time, counted from the first of the samples.
  size_t times_begin;
  // Time after the last.
  size_t times_end;
  // First channel.
  size_t channels_begin;
  // Channel after the last.
  size_t channels_end;
  // First input.
  size_t inputs_begin;
  // Input after the last.
  size_t inputs_end;
} corrust_missing;

// Samples to be read: where they are, how they lie, which are missing. Set to zero what does not matter.
//
// Strides are bytes from a sample to its neighbour along an axis; all zero, samples lie in the plan's layout without
// gaps. Of a channeliser's raw samples, `input_stride` (nt) or `time_stride` (tn) is the distance of rows, the others
// are zero.
typedef struct corrust_samples {
  // sizeof (struct corrust_samples).
  size_t size;
  // The first sample: an address of the host, or of the device.
  const void *data;
  // Bytes from there on that may be read.
  size_t bytes;
  // A CUstream (cudaStream_t), after whose work so far samples on the device are read; NULL is the default stream. It
  // has to live until the call returns.
  void *stream;
  // Times; 0: as many as `bytes` hold without gaps.
  size_t times;
  // From one channel to the next.
  size_t channel_stride;
  // From one input to the next.
  size_t input_stride;
  // From one time to the next.
  size_t time_stride;
  // Ranges of samples that are missing, and count as zero whatever their bytes; NULL: none.
  const struct corrust_missing *missing;
  // Number of ranges.
  size_t missing_count;
  // Whether `data` is an address of the device.
  bool on_device;
} corrust_samples;

// Memory to be written.
typedef struct corrust_room {
  // An address of the host, or of the device.
  void *data;
  // Bytes from there on.
  size_t bytes;
  // A CUstream (cudaStream_t) in whose order room on the device is written; NULL is the default stream.
  void *stream;
  // Whether `data` is an address of the device.
  bool on_device;
} corrust_room;

// Settings of a beamformer. Zero stands for a default, where there is one.
typedef struct corrust_beamformer_config {
  // sizeof (struct corrust_beamformer_config).
  size_t size;
  // D: dishes.
  size_t dishes;
  // B: beams of every channel and polarisation.
  size_t beams;
  // F: frequency channels (default: 1).
  size_t channels;
  // P: polarisations, each beamformed by itself (default: 1).
  size_t polarisations;
  // Encoding of weights: "ci8" (default) or "ci4"; "cf16" (default) with voltages of cf16.
  const char *weights;
  // Rounding of shifted sums: "nearest" (default), "floor", or "partial-128": of partial sums of 128 dishes (or another
  // power of two from 16 to 512) first, to 16 bits.
  const char *rounding;
  // "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
  const char *device;
  // "auto" (default), or a kernel's name.
  const char *kernel;
  // Voltages: "ci8" (default), "ci4" or "cf16".
  const char *encoding;
  // Samples of beams: "ci4", "ci8", "cf16", "cf32" (default: those of the voltages).
  const char *output_encoding;
  // Whether the incoherent beam, the sum of |E|^2 over dishes, is formed, too.
  bool incoherent;
} corrust_beamformer_config;

// Settings of a channeliser. Zero stands for a default, where there is one.
typedef struct corrust_channeliser_config {
  // sizeof (struct corrust_channeliser_config).
  size_t size;
  // N: inputs.
  size_t inputs;
  // C: channels, 2^a or 3 x 2^a.
  size_t channels;
  // Taps of the filter bank (default: 8); 1 is a windowed FFT.
  size_t taps;
  // Raw samples from one spectrum to the next (default: as many as there are channels, of real samples twice that).
  size_t hop;
  // Raw samples: "i8" (default), "i16", "f32", "ci8", "ci16", "cf16", "cf32", "ci4", "vdif-2", "vdif-2-complex", ...
  const char *encoding;
  // Order of raw samples: "nt" (default) or "tn".
  const char *layout;
  // "hann" (default), "hamming", "rect", "kaiser:BETA".
  const char *window;
  // Spectra: "ci8" (default), "ci4", "ci4-offset", "cf16", "cf32".
  const char *output_encoding;
  // Order of spectra: "tcn" (default) or "cnt".
  const char *output_layout;
  // "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
  const char *device;
  // "auto" (default), or a kernel's name.
  const char *kernel;
  // Complex gains, [N][C] of { float re, im; }; NULL: 1.
  const float *gains;
  // Number of complex gains.
  size_t gain_count;
  // Whether the band runs downwards.
  bool inverted;
} corrust_channeliser_config;

// Settings of a correlator. Zero stands for a default, where there is one.
typedef struct corrust_correlator_config {
  // sizeof (struct corrust_correlator_config).
  size_t size;
  // N: antennas x polarisations.
  size_t inputs;
  // C: frequency channels.
  size_t channels;
  // "ci8" (default), "ci4", "ci4-offset", "cf16", "b1", "b2".
  const char *encoding;
  // "tcn" (default): [time][channel][input]; "cnt": [channel][input][time]; "tcc": [channel][time / B][input][time % B],
  // B = 16 times of ci8, 32 of ci4, 8 of cf16.
  const char *layout;
  // "auto" (default: the first GPU, else the CPU), "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:all", "sim".
  const char *device;
  // "auto" (default), or a kernel's name.
  const char *kernel;
  // Gates whose visibilities are kept apart, 1 to 255 (default: 1).
  size_t gates;
  // Times by which each input is delayed; NULL: none. Where one is negative, all inputs are delayed by as much more as
  // makes the least 0.
  const int64_t *shifts;
  // Number of shifts: the inputs.
  size_t shift_count;
} corrust_correlator_config;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes an autocorrelator: A_k[c] = sum over m of Z_k[m] Y_k,c[m], bins of 2^k counts, exact.
enum corrust_status corrust_autocorrelator_new(const struct corrust_autocorrelator_config *config,
                                               corrust_autocorrelator **autocorrelator);

// Adds counts to the stream, bytes [instant][sensor] or with strides (a sensor is an input, an instant a time, and there
// is one channel), of any number of instants, in host or device memory. Host memory is free for other use on return.
enum corrust_status corrust_autocorrelator_accumulate(corrust_autocorrelator *autocorrelator,
                                                      const struct corrust_samples *counts);

// Adds counts up to 65535, [instant][sensor] in host memory.
enum corrust_status corrust_autocorrelator_accumulate_u16(corrust_autocorrelator *autocorrelator,
                                                          const uint16_t *counts,
                                                          size_t count);

// Lags of a curve; 0 of NULL.
size_t corrust_autocorrelator_points(const corrust_autocorrelator *autocorrelator);

// Stores the lag of every point, in instants, ascending.
enum corrust_status corrust_autocorrelator_lags(corrust_autocorrelator *autocorrelator,
                                                uint64_t *lags,
                                                size_t lag_count);

// Writes all sums of the stream so far, uint64_t [row][point], to `products`; the stream goes on. On the device they are
// written in the order of the room's stream, at an address that is a multiple of 8. corrust_autocorrelator_curve takes a
// snapshot in host memory.
enum corrust_status corrust_autocorrelator_snapshot(corrust_autocorrelator *autocorrelator,
                                                    const struct corrust_room *products);

// Stores the normalised curve of a row of the last snapshot: lags in seconds, of instants of `dwell` seconds, and g(tau);
// NaN where no two bins are so far apart yet. NULL where they are not wanted.
enum corrust_status corrust_autocorrelator_curve(corrust_autocorrelator *autocorrelator,
                                                 size_t row,
                                                 double dwell,
                                                 double *lags,
                                                 size_t lag_count,
                                                 double *values,
                                                 size_t value_count);

// Waits until the device has taken in all counts.
enum corrust_status corrust_autocorrelator_wait(corrust_autocorrelator *autocorrelator);

// Frees an autocorrelator; NULL is none. Its work on device memory is waited for.
void corrust_autocorrelator_free(corrust_autocorrelator *autocorrelator);

// Makes a beamformer: J[b][f][p][t] = clamp((sum over d of A[f][p][b][d] E[t][f][p][d]) >> s[f][p][b]), components -7 to 7,
// of ci8 beams -127 to 127.
enum corrust_status corrust_beamformer_new(const struct corrust_beamformer_config *config,
                                           corrust_beamformer **beamformer);

// Replaces the weights A, [F][P][B][D] in host memory, of the config's encoding of weights.
enum corrust_status corrust_beamformer_set_weights(corrust_beamformer *beamformer,
                                                   const void *weights,
                                                   size_t weight_bytes);

// Replaces the shifts s, [F][P][B], 0 to 31 each; before the first call they are 0.
enum corrust_status corrust_beamformer_set_shifts(corrust_beamformer *beamformer,
                                                  const uint32_t *shifts,
                                                  size_t shift_count);

// Forms the beams of voltages E, [T][F][P][D] or with strides (a channel is a pair of channel and polarisation, an
// input a dish), of any number of times. `beams` has room for J, [B][F][P][T] samples. `clipped` gets the clipped samples of
// each [F][P][B], `powers` the incoherent beam, [F][P][T]; both in host memory, for beams in host memory, NULL where they
// are not wanted. Beams on the device are written in the order of the room's stream without waiting.
enum corrust_status corrust_beamformer_beamform(corrust_beamformer *beamformer,
                                                const struct corrust_samples *voltages,
                                                const struct corrust_room *beams,
                                                uint64_t *clipped,
                                                size_t clipped_count,
                                                uint32_t *powers,
                                                size_t power_count);

// Waits until the device has done everything that it was given.
enum corrust_status corrust_beamformer_wait(corrust_beamformer *beamformer);

// Frees a beamformer; NULL is none. Its work on device memory is waited for.
void corrust_beamformer_free(corrust_beamformer *beamformer);

// The library's version, as in "0.2.0", in static memory.
const char *corrust_version(void);

// One sentence (UTF-8) about the last call of this thread that did not end with CORRUST_STATUS_OK: the argument, the value
// found, the value expected. Empty before the first. The text stays until the thread's next such call.
const char *corrust_last_error(void);

// Reserves `bytes` bytes of the memory of `device`: "cuda", "cuda:1", "sim". Their contents are undefined. Programs with
// a CUDA library of their own do without: plans take any memory of their device.
enum corrust_status corrust_buffer_new(const char *device,
                                       size_t bytes,
                                       corrust_buffer **buffer);

// The address on the device; NULL of NULL, and of no bytes.
void *corrust_buffer_data(const corrust_buffer *buffer);

// Copies `bytes` bytes to the buffer, from its byte `first` on, in the order of the device's default stream. The host's
// memory is free for other use on return.
enum corrust_status corrust_buffer_upload(corrust_buffer *buffer,
                                          size_t first,
                                          const void *data,
                                          size_t bytes);

// Copies `bytes` bytes from the buffer, from its byte `first` on, after what is on the device's default stream, and
// waits for it.
enum corrust_status corrust_buffer_download(corrust_buffer *buffer,
                                            size_t first,
                                            void *data,
                                            size_t bytes);

// Frees a buffer; NULL is none. What a plan still reads or writes must be waited for before.
void corrust_buffer_free(corrust_buffer *buffer);

// Makes a channeliser, a polyphase filter bank: the same bits on every device.
enum corrust_status corrust_channeliser_new(const struct corrust_channeliser_config *config,
                                            corrust_channeliser **channeliser);

// Replaces the gains, [N][C] of { float re, im; }, for the spectra to come.
enum corrust_status corrust_channeliser_set_gains(corrust_channeliser *channeliser,
                                                  const float *gains,
                                                  size_t gain_count);

// Bytes of one spectrum of all inputs; 0 of NULL.
size_t corrust_channeliser_spectrum_bytes(const corrust_channeliser *channeliser);

// Stores in `spectra` how many spectra `times` more raw samples of each input complete.
enum corrust_status corrust_channeliser_upcoming(corrust_channeliser *channeliser,
                                                 size_t times,
                                                 size_t *spectra);

// Makes the spectra that more raw samples complete, as many as corrust_channeliser_upcoming says, for which `spectra` has
// room. `first` gets the number of the first of them in the stream; `clipped`, for spectra in host memory, the clipped
// samples of each input; NULL where they are not wanted. Spectra on the device are written in the order of the room's
// stream without waiting. A spectrum that touches a missing sample is missing and zero: corrust_channeliser_missing.
enum corrust_status corrust_channeliser_channelise(corrust_channeliser *channeliser,
                                                   const struct corrust_samples *samples,
                                                   const struct corrust_room *spectra,
                                                   uint64_t *first,
                                                   uint64_t *clipped,
                                                   size_t clipped_count);

// Stores in `count` how many ranges of the last call's spectra are missing, and in `ranges` as many of them as `capacity`
// has room for: times are spectra, counted from the first of the call.
enum corrust_status corrust_channeliser_missing(corrust_channeliser *channeliser,
                                                struct corrust_missing *ranges,
                                                size_t capacity,
                                                size_t *count);

// Waits until the device has done everything that it was given.
enum corrust_status corrust_channeliser_wait(corrust_channeliser *channeliser);

// Forgets the stream: what is fed next begins another.
enum corrust_status corrust_channeliser_reset(corrust_channeliser *channeliser);

// Frees a channeliser; NULL is none. Its work on device memory is waited for.
void corrust_channeliser_free(corrust_channeliser *channeliser);

// Makes a correlator: V[c][b(i,j)] = sum over t of x_i[c][t] conj(x_j[c][t]), 0 <= j <= i < N, b(i,j) = i(i+1)/2 + j, exact
// for integer samples however long the integration.
enum corrust_status corrust_correlator_new(const struct corrust_correlator_config *config,
                                           corrust_correlator **correlator);

// Adds samples, in host or device memory, to the integration: blocks of any number of times, whole blocks of layout tcc.
// Host memory is free for other use on return. Samples on the device must stay unchanged until their stream has done
// the call's work; corrust_correlator_wait and a dump to the host wait for it.
enum corrust_status corrust_correlator_accumulate(corrust_correlator *correlator,
                                                  const struct corrust_samples *samples);

// corrust_correlator_accumulate into gates: for each time one number in host memory, 0 to gates - 1, or 255 to drop it.
enum corrust_status corrust_correlator_accumulate_gated(corrust_correlator *correlator,
                                                        const struct corrust_samples *samples,
                                                        const uint8_t *gates,
                                                        size_t gate_count);

// Bytes of a dump: [gate][channel][baseline] of { int64_t re, im; }, of cf16 samples { float re, im; }; 0 of NULL.
size_t corrust_correlator_visibility_bytes(const corrust_correlator *correlator);

// Writes the sums since the last dump to `visibilities`, as many bytes as corrust_correlator_visibility_bytes says, and
// begins the next integration. `times` gets the times fed, [gate]; `valid` the samples behind each sum,
// [gate][channel][baseline]; both in host memory, NULL where they are not wanted. On the device, visibilities are written
// in the order of the room's stream without waiting, at an address that is a multiple of their 16 (cf16: 8) bytes.
enum corrust_status corrust_correlator_dump(corrust_correlator *correlator,
                                            const struct corrust_room *visibilities,
                                            uint64_t *times,
                                            size_t times_count,
                                            uint64_t *valid,
                                            size_t valid_count);

// Waits until the device has summed everything that it was given.
enum corrust_status corrust_correlator_wait(corrust_correlator *correlator);

// Forgets everything since the last dump.
enum corrust_status corrust_correlator_reset(corrust_correlator *correlator);

// Name of the device that correlates: a text that stays as long as the correlator. NULL of NULL.
const char *corrust_correlator_device(const corrust_correlator *correlator);

// Frees a correlator; NULL is none. Its work on device memory is waited for.
void corrust_correlator_free(corrust_correlator *correlator);

// Makes the products of a plan, TOML, as the command `corrust observe` does (docs/observe.md): visibilities, beams, powers,
// spectra and kurtosis of the recording or stream that it names, written to files. Paths count from the working folder. A live
// stream needs `seconds` or `times`.
//
// When all is written, `say` gets a sentence (UTF-8) on each product, and `context` with it; NULL: none is said. Warnings
// go to the standard error.
enum corrust_status corrust_observe(const char *plan,
                                    void (*say)(const char *sentence, void *context),
                                    void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CORRUST_H */
