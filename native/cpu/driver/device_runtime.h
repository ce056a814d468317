/* What kernels call of the device runtime library to wait for their whole grid: PTX of our own in place of libcudadevrt's,
 * which asks the vendor's driver. The first block's part brings the counter to a change of its highest bit, for which all wait. */
#define DEVICE_RUNTIME                                                                                     \
    ".version 7.5\n.target sm_75\n.address_size 64\n"                                                       \
    ".global .align 4 .u32 cpu_reference_grid_counter;\n"                                                   \
    ".visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)\n"                     \
    "{ .reg .b64 %a; mov.u64 %a, cpu_reference_grid_counter; cvta.global.u64 %a, %a;"                       \
    " st.param.b64 [handle], %a; ret; }\n"                                                                  \
    ".visible .func (.param .b32 status) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)\n"        \
    "{ .reg .pred %first, %other, %same; .reg .b32 %r<12>; .reg .b64 %a;\n"                                 \
    "  ld.param.b64 %a, [handle]; bar.sync 0;\n"                                                            \
    "  mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; or.b32 %r0, %r0, %r1; or.b32 %r0, %r0, %r2;\n" \
    "  setp.ne.u32 %other, %r0, 0; @%other bra DONE;\n"                                                     \
    "  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z; or.b32 %r3, %r3, %r4; or.b32 %r3, %r3, %r5;\n" \
    "  mov.u32 %r6, %nctaid.x; mov.u32 %r7, %nctaid.y; mul.lo.u32 %r6, %r6, %r7; mov.u32 %r7, %nctaid.z; mul.lo.u32 %r6, %r6, %r7;\n" \
    "  setp.eq.u32 %first, %r3, 0; sub.u32 %r8, 0x80000001, %r6; selp.b32 %r8, %r8, 1, %first;\n"           \
    "  membar.gl; atom.add.u32 %r9, [%a], %r8;\n"                                                           \
    "WAIT: ld.volatile.u32 %r10, [%a]; xor.b32 %r11, %r9, %r10; setp.ge.s32 %same, %r11, 0; @%same bra WAIT;\n" \
    "  membar.gl;\n"                                                                                        \
    "DONE: bar.sync 0; st.param.b32 [status], 0; ret; }\n"
