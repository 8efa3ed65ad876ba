/* A system-call filter of N instructions for all threads of a JVM; it allows everything. Linux, seccomp(2). */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter program[BPF_MAXINSNS];

/* The first argument is loaded, so that the kernel cannot keep the decision by number of the call. */
int Java_Service_filter(void *env, void *type, int count) {
    struct sock_fprog loaded = {.len = (unsigned short) count, .filter = program};
    (void) env;
    (void) type;
    if (count < 2 || count > BPF_MAXINSNS)
        return -1;
    program[0] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    for (int i = 1; i < count - 1; i++)
        program[i] = (struct sock_filter) BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 0x55555555u);
    program[count - 1] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -2;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &loaded) ? -3 : 0;
}
