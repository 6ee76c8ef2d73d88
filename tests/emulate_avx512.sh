#!/usr/bin/env bash
# emulate_avx512.sh PROGRAM [ARGS...]: run a static x86-64 Linux program on an emulated AVX-512 CPU.
#
# For machines without AVX-512: Bochs (Debian's build) executes EVEX code; QEMU's TCG does not.
# Bochs is a whole PC, so it boots Debian's cloud kernel with an initramfs holding the program.
# Nothing is installed: packages are unpacked under $FASTDL_EMULATOR_CACHE.
# Exit code: the program's; 124 when out of time; 77 when the emulator cannot be had.
#
#   FASTDL_EMULATOR_CACHE    cache folder (build/avx512-emulator)
#   FASTDL_EMULATOR_CPU      Bochs CPU model (corei7_skylake_x); corei7_haswell_4770 has AVX2 only
#   FASTDL_EMULATOR_FILES    space-separated relative paths to copy into the guest at the same place
#   FASTDL_EMULATOR_TIMEOUT  seconds of wall time (1800)
# Every FASTDL_* and OMP_* variable is passed on to the program.
set -euo pipefail

cannot() { echo "emulate_avx512: cannot run: $*" >&2; exit 77; }

[[ $# -ge 1 && -f $1 ]] || { echo "usage: $0 STATIC_PROGRAM [ARGS...]" >&2; exit 2; }
program=$1; shift
if readelf -lW "$program" | grep -q INTERP; then
    echo "$0: $program is not statically linked (the guest has no libraries)" >&2; exit 2
fi
for tool in apt-get apt-cache dpkg-deb python3 as ld flock; do
    command -v $tool >/dev/null || cannot "$tool is missing"
done
mkdir -p "${FASTDL_EMULATOR_CACHE:=build/avx512-emulator}"
cache=$(cd "$FASTDL_EMULATOR_CACHE" && pwd)
root=$cache/root
work=$(mktemp -d)
emulator=
finish() {
    if [[ -n $emulator ]]; then kill "$emulator" 2>/dev/null || true; wait "$emulator" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- Packages, once. ----
exec 9>"$cache/lock"; flock 9
if [[ ! -e $cache/ready ]]; then
    rm -rf "$root" "$cache/debs"; mkdir -p "$root" "$cache/debs/partial"
    # --download-only adds exactly the libraries this system lacks; --reinstall fetches a named
    # package even when it is installed.
    apt-get -qq -y -o Dir::Cache::archives="$cache/debs" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User="$(id -un)" --no-install-recommends --reinstall --download-only \
        install bochs bochs-term vgabios busybox-static >"$work/apt.log" 2>&1 ||
        cannot "apt-get did not deliver bochs: $(tail -n 1 "$work/apt.log")"
    for deb in "$cache"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done
    kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-\)/\1/p' | head -n 1)
    [[ -n $kernel ]] && (cd "$cache/debs" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$kernel") \
        >"$work/apt.log" 2>&1 || cannot "no kernel package: $(tail -n 1 "$work/apt.log")"
    dpkg-deb --fsys-tarfile "$cache"/debs/linux-image-*.deb |
        tar -x -C "$root" --wildcards './boot/vmlinuz-*'
    mv "$root"/boot/vmlinuz-* "$root/vmlinuz"
    rm -rf "$cache/debs"; touch "$cache/ready"
fi
flock -u 9
busybox=$(find "$root" -name busybox -type f -perm -u+x | head -n 1)
plugins=$(dirname "$(find "$root" -name libbx_term_gui.so | head -n 1)")

# ---- Initramfs: busybox as shell, the program, and an init that reports on the serial ports. ----
quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; }
guest=$work/guest
mkdir -p "$guest"/{bin,dev,proc,sys,tmp}
cp "$busybox" "$guest/bin/busybox"
cp "$program" "$guest/program"; chmod +x "$guest/program"
for file in ${FASTDL_EMULATOR_FILES:-}; do cp -rL --parents "$file" "$guest"; done
{
    echo '#!/bin/busybox sh'
    echo 'B=/bin/busybox; $B mount -t devtmpfs none /dev; $B mount -t proc none /proc; $B mount -t sysfs none /sys'
    echo '$B stty -F /dev/ttyS0 115200 raw -echo'
    for name in "${!FASTDL_@}" "${!OMP_@}"; do echo "export $name=$(quote "${!name}")"; done
    printf '/program'; for argument in "$@"; do printf ' %s' "$(quote "$argument")"; done
    echo ' </dev/null >/dev/ttyS0 2>&1'
    echo 'echo "program-exit-code $?" >/dev/ttyS1; $B reboot -f'
} >"$guest/init"
chmod +x "$guest/init"
(cd "$guest" && find . | "$busybox" cpio -o -H newc 2>/dev/null) >"$work/initrd"

# ---- Disk: the memory image the kernel starts from. ----
# A BIOS, a boot loader and a CD cost four billion emulated instructions (over a minute), so the
# machine's ROM is our own: it copies this disk to memory at BASE and enters the kernel by the
# 64-bit boot protocol. BASE: boot_params; +0x1000: command line; +0x2000: page tables;
# then the kernel at 16 MiB and the initramfs.
base=0xff0000 ips=40000000 memory=1024
# - no ACPI, APIC or PCI: there is no BIOS that would describe them; reboot=t: a triple fault ends Bochs
# - clearcpuid: Bochs 2.7 reports a wrong size for the compact XSAVE format, and Linux then drops AVX
# - tsc_early_khz: Bochs ticks the TSC once per instruction, not at the rate its CPUID claims
# - cryptomgr.notests, initcall_blacklist: slow self-tests and set-up that nothing here needs
cmdline="console=ttyS1,115200 quiet panic=-1 reboot=t nokaslr mitigations=off random.trust_cpu=on \
acpi=off noapic nolapic pci=off clearcpuid=xsaves,xsavec tsc=reliable tsc_early_khz=$((ips / 1000)) \
cryptomgr.notests initcall_blacklist=load_system_certificate_list,trace_eval_init,init_kprobe_trace"
python3 - "$root/vmlinuz" "$work/initrd" "$work/disk" $base $memory "$cmdline" <<'PY'
import struct, sys
kernel, initrd = (open(name, "rb").read() for name in sys.argv[1:3])
base, memory, cmdline = int(sys.argv[4], 16), int(sys.argv[5]) << 20, sys.argv[6].encode()
start = 0x1000000
init_size, = struct.unpack_from("<I", kernel, 0x260)
ramdisk = (start + init_size + 0xfffff) & ~0xfffff  # beyond what the kernel unpacks itself into
image = bytearray(ramdisk - base) + initrd
code = kernel[((kernel[0x1f1] or 4) + 1) * 512:]
image[start - base:start - base + len(code)] = code
end = 0x202 + kernel[0x201]
image[0x1f1:end] = kernel[0x1f1:end]  # the setup header
image[0x210] = 0xff  # type_of_loader: unregistered
struct.pack_into("<II", image, 0x218, ramdisk, len(initrd))
struct.pack_into("<I", image, 0x228, base + 0x1000)
image[0x1e8] = 2  # memory map entries
struct.pack_into("<QQIQQI", image, 0x2d0, 0, 0x9fc00, 1, 0x100000, memory - 0x100000, 1)
image[0x1000:0x1000 + len(cmdline)] = cmdline
struct.pack_into("<Q", image, 0x2000, base + 0x3000 | 3)
struct.pack_into("<4Q", image, 0x3000, *(i << 30 | 0x83 for i in range(4)))  # 1 GiB pages
image.extend(bytes(-len(image) % (16128 * 512)))  # whole reads (256) and cylinders (16 * 63)
open(sys.argv[3], "wb").write(image)
PY
sectors=$(($(stat -c %s "$work/disk") / 512))

# ---- ROM: real mode -> 32 bits -> read the disk by PIO -> long mode -> kernel. ----
as --defsym BASE=$base --defsym SECTORS=$sectors -o "$work/rom.o" - <<'ASM'
    .code16
reset:
    cli
    lgdtl %cs:gdtr
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmpl $8, $(protected + 0xffff0000)
    .code32
protected:
    movw $0x18, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x3f6, %dx            # no disk interrupts
    movb $2, %al
    outb %al, %dx
    movl $BASE, %edi
    xorl %ebx, %ebx
chunk:                          # READ SECTORS: 256 from LBA %ebx
    movw $0x1f2, %dx
    xorl %eax, %eax
    outb %al, %dx
    movl %ebx, %eax
    incw %dx
    outb %al, %dx
    shrl $8, %eax
    incw %dx
    outb %al, %dx
    shrl $8, %eax
    incw %dx
    outb %al, %dx
    movb $0xe0, %al
    incw %dx
    outb %al, %dx
    movb $0x20, %al
    incw %dx
    outb %al, %dx
    movl $256, %esi
sector:
    movw $0x1f7, %dx
busy:
    inb %dx, %al
    testb $0x80, %al
    jnz busy
    testb $8, %al
    jz busy
    movw $0x1f0, %dx
    movl $128, %ecx
    rep insl
    decl %esi
    jnz sector
    addl $256, %ebx
    cmpl $SECTORS, %ebx
    jb chunk
    movl $0x20, %eax            # PAE, page tables, long mode, paging
    movl %eax, %cr4
    movl $(BASE + 0x2000), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl $BASE, %esi            # boot_params
    movl %cr0, %eax
    orl $0x80000000, %eax
    andl $0x9fffffff, %eax
    movl %eax, %cr0
    ljmpl $0x10, $0x1000200     # the kernel's 64-bit entry point
    .balign 8
gdt: .quad 0, 0x00cf9a000000ffff, 0x00af9a000000ffff, 0x00cf92000000ffff
gdtr: .word 31
    .long gdt + 0xffff0000
    .org 0xfff0                 # where the CPU starts
    .code16
    jmp reset
    .org 0x10000
ASM
ld -Ttext 0 --oformat binary -e 0 -o "$work/rom" "$work/rom.o"

# ---- Run. com1 carries the program's output, com2 the kernel's messages and the exit code. ----
cat >"$work/bochsrc" <<RC
display_library: term
romimage: file=$work/rom, address=0xffff0000
vgaromimage: file=$root/usr/share/vgabios/vgabios.bin
cpu: model=${FASTDL_EMULATOR_CPU:-corei7_skylake_x}, count=1, ips=$ips, reset_on_triple_fault=0
memory: guest=$memory, host=$memory
clock: sync=none
ata0-master: type=disk, path=$work/disk, mode=flat, cylinders=$((sectors / 1008)), heads=16, spt=63
com1: enabled=1, mode=file, dev=$work/com1
com2: enabled=1, mode=file, dev=$work/com2
plugin_ctrl: speaker=0
sound: driver=dummy
log: $work/log
panic: action=fatal
RC
# timeout -k below: Bochs may survive SIGTERM.
echo c >"$work/debugger"  # Debian's Bochs has its debugger built in: tell it to continue
: >"$work/com1"
LD_LIBRARY_PATH=$(dirname "$(dirname "$plugins")") LTDL_LIBRARY_PATH=$plugins \
    BXSHARE=$root/usr/share/bochs TERM=linux \
    timeout --foreground -k 2 "${FASTDL_EMULATOR_TIMEOUT:-1800}" "$(find "$root" -name bochs-bin -type f)" \
    -q -f "$work/bochsrc" -rc "$work/debugger" </dev/null >"$work/screen" 2>&1 &
emulator=$!
tail -c +1 -s 0.2 -f --pid=$emulator "$work/com1" &
wait $! || true  # in the background, so that a signal to this script is acted on at once
status=0; wait $emulator || status=$?
emulator=
code=$(sed -n 's/^program-exit-code \([0-9]*\).*/\1/p' "$work/com2" 2>/dev/null || true)
[[ -n $code ]] && exit "$code"
if [[ $status == 124 || $status == 137 ]]; then echo "emulate_avx512: out of time" >&2; exit 124; fi
echo "emulate_avx512: the emulator ended without the program's exit code:" >&2
tail -n 5 "$work/com2" "$work/screen" >&2 || true
exit 1
