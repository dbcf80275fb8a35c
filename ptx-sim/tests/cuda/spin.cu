// A flag that nobody sets.
extern "C" __global__ void spin(volatile unsigned *flag) {
    while (*flag == 0) { }
}
