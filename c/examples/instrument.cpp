// Channelises, beamforms and autocorrelates, in host and device memory, and compares with plain loops.
//
//     c++ instrument.cpp $(pkg-config --cflags --libs corrust) && ./a.out [DEVICE]
#include "check.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <string>
#include <vector>

namespace {

// Handles that free themselves.
template <typename T, void (*FREE)(T *)>
struct Free {
    void operator()(T *handle) const { FREE(handle); }
};
using Channeliser = std::unique_ptr<corrust_channeliser, Free<corrust_channeliser, corrust_channeliser_free>>;
using Beamformer = std::unique_ptr<corrust_beamformer, Free<corrust_beamformer, corrust_beamformer_free>>;
using Autocorrelator =
    std::unique_ptr<corrust_autocorrelator, Free<corrust_autocorrelator, corrust_autocorrelator_free>>;
using Buffer = std::unique_ptr<corrust_buffer, Free<corrust_buffer, corrust_buffer_free>>;

Buffer buffer(const std::string &device, size_t bytes) {
    corrust_buffer *made = nullptr;
    CHECK(corrust_buffer_new(device.c_str(), bytes, &made));
    return Buffer(made);
}

template <typename T>
corrust_samples samples_of(const std::vector<T> &values) {
    corrust_samples samples = {};
    samples.size = sizeof samples;
    samples.data = values.data();
    samples.bytes = values.size() * sizeof(T);
    return samples;
}

template <typename T>
corrust_room room_of(std::vector<T> &values) {
    corrust_room room = {};
    room.data = values.data();
    room.bytes = values.size() * sizeof(T);
    return room;
}

// Brings samples to the device, has work write to a room there, and brings that back.
template <typename T, typename U, typename Work>
void through_device(const std::string &device, const std::vector<T> &from, std::vector<U> &to, Work work) {
    corrust_samples samples = samples_of(from);
    corrust_room room = room_of(to);
    Buffer source = buffer(device, samples.bytes), target = buffer(device, room.bytes);
    CHECK(corrust_buffer_upload(source.get(), 0, from.data(), samples.bytes));
    samples.data = corrust_buffer_data(source.get());
    room.data = corrust_buffer_data(target.get());
    samples.on_device = room.on_device = true;
    work(samples, room);
    CHECK(corrust_buffer_download(target.get(), 0, to.data(), room.bytes));
}

// A windowed FFT of 16 channels: X[m][k] = sum of x[32 m + n] exp(-2 pi j k n / 32) / sqrt(32).
void channelise(const std::string &device, bool on_device) {
    const size_t inputs = 2, channels = 16, residues = 32, times = 5 * residues + 7, spectra = 5;
    corrust_channeliser_config config = {};
    config.size = sizeof config;
    config.inputs = inputs;
    config.channels = channels;
    config.taps = 1;
    config.encoding = "i8";
    config.output_encoding = "cf32";
    config.device = device.c_str();
    corrust_channeliser *made = nullptr;
    CHECK(corrust_channeliser_new(&config, &made));
    Channeliser channeliser(made);

    std::vector<int8_t> raw(inputs * times);
    fill(raw.data(), raw.size(), 2);
    size_t upcoming = 0;
    CHECK(corrust_channeliser_upcoming(channeliser.get(), times, &upcoming));
    same("spectra", 0, static_cast<long long>(upcoming), spectra);
    std::vector<std::complex<float>> found(spectra * channels * inputs);
    same("bytes", 0, static_cast<long long>(corrust_channeliser_spectrum_bytes(channeliser.get()) * spectra),
         static_cast<long long>(found.size() * 8));
    uint64_t first = 99;
    auto work = [&](const corrust_samples &samples, const corrust_room &room) {
        CHECK(corrust_channeliser_channelise(channeliser.get(), &samples, &room, &first, nullptr, 0));
    };
    if (on_device)
        through_device(device, raw, found, work);
    else
        work(samples_of(raw), room_of(found));
    same("first", 0, static_cast<long long>(first), 0);
    for (size_t m = 0; m < spectra; m++)
        for (size_t k = 0; k < channels; k++)
            for (size_t i = 0; i < inputs; i++) {
                std::complex<double> right = 0;
                for (size_t n = 0; n < residues; n++) {
                    const double phase = -2 * 3.14159265358979323846 * static_cast<double>(k * n % residues) / residues;
                    right += static_cast<double>(raw[i * times + m * residues + n]) * std::polar(1.0, phase);
                }
                right /= std::sqrt(static_cast<double>(residues));
                const std::complex<double> value = found[(m * channels + k) * inputs + i];
                if (!(std::abs(value - right) < 1e-3)) {
                    fprintf(stderr, "spectrum %zu, channel %zu, input %zu: found %g + %gi, expected %g + %gi\n", m, k, i,
                            value.real(), value.imag(), right.real(), right.imag());
                    exit(1);
                }
            }
    size_t missing = 9;
    CHECK(corrust_channeliser_missing(channeliser.get(), nullptr, 0, &missing));
    same("missing", 0, static_cast<long long>(missing), 0);
    printf("channelise%s: %zu spectra are right\n", on_device ? ", on the device" : "", spectra);
}

int nibble(unsigned value) { return static_cast<int>(value ^ 8u) - 8; }

void beamform(const std::string &device, bool on_device, bool eight_bits) {
    const size_t dishes = 7, beams = 3, channels = 2, polarisations = 2, times = 33, streams = channels * polarisations;
    corrust_beamformer_config config = {};
    config.size = sizeof config;
    config.dishes = dishes;
    config.beams = beams;
    config.channels = channels;
    config.polarisations = polarisations;
    config.incoherent = true;
    config.encoding = "ci4";
    config.output_encoding = eight_bits ? "ci8" : "ci4";
    config.device = device.c_str();
    corrust_beamformer *made = nullptr;
    CHECK(corrust_beamformer_new(&config, &made));
    Beamformer beamformer(made);

    std::vector<int8_t> weights(streams * beams * dishes * 2);
    fill(weights.data(), weights.size(), 3);
    std::vector<uint32_t> shifts(streams * beams);
    for (size_t k = 0; k < shifts.size(); k++) shifts[k] = static_cast<uint32_t>((eight_bits ? 2 : 5) + k % 5);
    CHECK(corrust_beamformer_set_weights(beamformer.get(), weights.data(), weights.size()));
    CHECK(corrust_beamformer_set_shifts(beamformer.get(), shifts.data(), shifts.size()));
    std::vector<uint8_t> voltages(times * streams * dishes);
    fill(voltages.data(), voltages.size(), 4);

    const size_t sample = eight_bits ? 2 : 1;
    std::vector<uint8_t> found(beams * streams * times * sample);
    std::vector<uint64_t> clipped(streams * beams);
    std::vector<uint32_t> powers(streams * times);
    if (on_device)
        through_device(device, voltages, found, [&](const corrust_samples &samples, const corrust_room &room) {
            CHECK(corrust_beamformer_beamform(beamformer.get(), &samples, &room, nullptr, 0, nullptr, 0));
        });
    else {
        const corrust_samples samples = samples_of(voltages);
        const corrust_room room = room_of(found);
        CHECK(corrust_beamformer_beamform(beamformer.get(), &samples, &room, clipped.data(), clipped.size(), powers.data(),
                                          powers.size()));
    }
    std::vector<uint64_t> right_clipped(streams * beams);
    for (size_t fp = 0; fp < streams; fp++)
        for (size_t t = 0; t < times; t++) {
            uint32_t power = 0;
            for (size_t d = 0; d < dishes; d++) {
                const unsigned e = voltages[(t * streams + fp) * dishes + d];
                const int re = nibble(e >> 4), im = nibble(e & 15u);
                power += static_cast<uint32_t>(re * re + im * im);
            }
            if (!on_device) same("power", fp * times + t, powers[fp * times + t], power);
            for (size_t b = 0; b < beams; b++) {
                int re = 0, im = 0;
                for (size_t d = 0; d < dishes; d++) {
                    const int8_t *a = &weights[((fp * beams + b) * dishes + d) * 2];
                    const unsigned e = voltages[(t * streams + fp) * dishes + d];
                    re += a[0] * nibble(e >> 4) - a[1] * nibble(e & 15u);
                    im += a[0] * nibble(e & 15u) + a[1] * nibble(e >> 4);
                }
                const uint32_t s = shifts[fp * beams + b];
                const int half = 1 << (s - 1);
                const int rounded[2] = {(re + half) >> s, (im + half) >> s};
                const int most = eight_bits ? 127 : 7;
                const int kept[2] = {std::min(std::max(rounded[0], -most), most), std::min(std::max(rounded[1], -most), most)};
                right_clipped[fp * beams + b] += kept[0] != rounded[0] || kept[1] != rounded[1];
                const size_t index = (b * streams + fp) * times + t;
                if (eight_bits) {
                    same("real part of a beam", index, static_cast<int8_t>(found[2 * index]), kept[0]);
                    same("imaginary part of a beam", index, static_cast<int8_t>(found[2 * index + 1]), kept[1]);
                } else
                    same("beam", index, found[index], (kept[0] & 15) << 4 | (kept[1] & 15));
            }
        }
    for (size_t k = 0; k < clipped.size() && !on_device; k++)
        same("clipped", k, static_cast<long long>(clipped[k]), static_cast<long long>(right_clipped[k]));
    printf("beamform, %d bits%s: %zu samples are right\n", eight_bits ? 8 : 4, on_device ? ", on the device" : "",
           found.size() / sample);
}

void autocorrelate(const std::string &device, bool on_device) {
    const size_t sensors = 3, groups = 4, lags = 5, instants = 300;
    corrust_autocorrelator_config config = {};
    config.size = sizeof config;
    config.sensors = sensors;
    config.groups = groups;
    config.lags = lags;
    config.device = device.c_str();
    corrust_autocorrelator *made = nullptr;
    CHECK(corrust_autocorrelator_new(&config, &made));
    Autocorrelator autocorrelator(made);

    std::vector<uint8_t> counts(instants * sensors);
    fill(counts.data(), counts.size(), 5);
    const size_t points = corrust_autocorrelator_points(autocorrelator.get());
    same("points", 0, static_cast<long long>(points), groups * lags);
    std::vector<uint64_t> lag(points), found(sensors * points);
    CHECK(corrust_autocorrelator_lags(autocorrelator.get(), lag.data(), points));
    if (on_device)
        through_device(device, counts, found, [&](const corrust_samples &samples, const corrust_room &room) {
            CHECK(corrust_autocorrelator_accumulate(autocorrelator.get(), &samples));
            CHECK(corrust_autocorrelator_snapshot(autocorrelator.get(), &room));
        });
    else {
        const corrust_samples samples = samples_of(counts);
        const corrust_room room = room_of(found);
        CHECK(corrust_autocorrelator_accumulate(autocorrelator.get(), &samples));
        CHECK(corrust_autocorrelator_snapshot(autocorrelator.get(), &room));
        std::vector<double> seconds(points), curve(points);
        CHECK(corrust_autocorrelator_curve(autocorrelator.get(), 1, 1e-6, seconds.data(), points, curve.data(), points));
        if (std::fabs(curve[1] - 1) > 0.2 || std::fabs(seconds[1] - 1e-6) > 1e-12) {
            fprintf(stderr, "g(%g s) of noise: found %g, expected about 1\n", seconds[1], curve[1]);
            exit(1);
        }
    }
    for (size_t sensor = 0; sensor < sensors; sensor++)
        for (size_t point = 0; point < points; point++) {
            const size_t bin = size_t{1} << (point / lags);
            auto sum = [&](size_t first, size_t back) {
                uint64_t total = 0;
                for (size_t q = first; q < first + bin; q++)
                    total += q >= back ? counts[(q - back) * sensors + sensor] : 0;
                return total;
            };
            uint64_t right = 0;
            for (size_t first = 0; first + bin <= instants; first += bin)
                right += sum(first, 0) * sum(first, static_cast<size_t>(lag[point]));
            same("sum", sensor * points + point, static_cast<long long>(found[sensor * points + point]),
                 static_cast<long long>(right));
        }
    printf("autocorrelate%s: %zu sums are right\n", on_device ? ", on the device" : "", found.size());
}

}  // namespace

int main(int count, char **arguments) {
    const std::string device = count > 1 ? arguments[1] : "auto";
    const bool has_memory = device != "cpu" && device != "auto";
    for (const bool on_device : {false, true}) {
        if (on_device && !has_memory) continue;
        channelise(device, on_device);
        for (const bool eight_bits : {false, true}) beamform(device, on_device, eight_bits);
        autocorrelate(device, on_device);
    }
    return 0;
}
