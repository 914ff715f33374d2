/* Preloaded into one process: its time of day is the machine's plus the double in the file $STEPPED_CLOCK.

   Clocks that are not the time of day are left alone, as they are when somebody sets a machine's clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *offset;

__attribute__((constructor)) static void find(void)
{
    const char *path = getenv("STEPPED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *block = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    if (block != MAP_FAILED)
        offset = block;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        double ahead = *offset, whole = floor(ahead);
        time->tv_sec += (time_t)whole;
        time->tv_nsec += (long)((ahead - whole) * 1e9);
        if (time->tv_nsec >= 1000000000L) {
            time->tv_nsec -= 1000000000L;
            time->tv_sec += 1;
        }
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return (time_t)-1;
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}
