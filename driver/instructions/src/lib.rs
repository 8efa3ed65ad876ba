//! A plugin of QEMU's TCG that counts how often each block of a guest's code is executed. It counts outside of the
//! guest, which executes no instruction more.
//!
//! `-plugin file=libleadline_instructions.so,out=FILE[,mark=ADDRESS]...`: of the stretches between two executions of
//! any of the marks, that with the most instructions is written when QEMU ends; without marks all of the run. A line
//! for each block, in order: virtual address (hexadecimal), its instructions, executions. A block that an exception
//! leaves early counts in full.
//!
//! Source: QEMU 7.2, docs/devel/tcg-plugins.rst (version 1 of the interface).

use std::collections::BTreeMap;
use std::io::{self, Write};

/// A block's count, which the code that QEMU makes of the guest's adds to; never freed.
#[derive(Clone, Copy)]
struct Counter(*mut u64);

// SAFETY: the guest's processors run in one thread (`-accel tcg,thread=single`).
unsafe impl Send for Counter {}

impl Counter {
    fn new() -> Counter {
        Counter(Box::leak(Box::new(0)))
    }

    fn value(self) -> u64 {
        // SAFETY: never freed; other code writes to it.
        unsafe { self.0.read_volatile() }
    }
}

struct Block {
    instructions: u64,
    executions: Counter,
    before: u64, // at the last mark
    longest: u64,
}

impl Block {
    fn added(&self) -> u64 {
        self.executions.value() - self.before
    }
}

/// Executions of blocks by address and number of instructions.
struct Counts {
    places: BTreeMap<(u64, u64), usize>,
    blocks: Vec<Block>,
    marks: Vec<u64>,
    marked: bool,
    longest: u64, // instructions
    out: String,
}

impl Counts {
    const fn new() -> Counts {
        Counts {
            places: BTreeMap::new(),
            blocks: Vec::new(),
            marks: Vec::new(),
            marked: false,
            longest: 0,
            out: String::new(),
        }
    }

    fn with(arguments: impl Iterator<Item = String>) -> Result<Counts, String> {
        let mut counts = Counts::new();
        for argument in arguments {
            match argument.split_once('=') {
                Some(("out", path)) => counts.out = path.to_owned(),
                Some(("mark", address)) => {
                    let digits = address.trim_start_matches("0x");
                    let known = u64::from_str_radix(digits, 16);
                    counts.marks.push(known.map_err(|_| format!("mark={address} is no hexadecimal address"))?);
                }
                _ => return Err(format!("{argument} is neither out=FILE nor mark=ADDRESS")),
            }
        }
        if counts.out.is_empty() {
            return Err("out=FILE is missing".into());
        }
        Ok(counts)
    }

    /// The count of a block, the same one when it is translated again.
    fn block(&mut self, address: u64, instructions: u64) -> Counter {
        let place = *self.places.entry((address, instructions)).or_insert_with(|| {
            self.blocks.push(Block { instructions, executions: Counter::new(), before: 0, longest: 0 });
            self.blocks.len() - 1
        });
        self.blocks[place].executions
    }

    /// A stretch ends and another begins. What comes before the first mark is no stretch.
    fn mark(&mut self) {
        let instructions = self.blocks.iter().map(|block| block.instructions * block.added()).sum();
        let longer = (self.marked || self.marks.is_empty()) && instructions > self.longest;
        for block in &mut self.blocks {
            if longer {
                block.longest = block.added();
            }
            block.before = block.executions.value();
        }
        if longer {
            self.longest = instructions;
        }
        self.marked = true;
    }

    fn write(&mut self, mut out: impl Write) -> io::Result<()> {
        if self.marks.is_empty() {
            self.mark();
        }
        for ((address, instructions), place) in &self.places {
            let executions = self.blocks[*place].longest;
            if executions > 0 {
                writeln!(out, "{address:x} {instructions} {executions}")?;
            }
        }
        out.flush()
    }
}

/// What QEMU calls, and what it is told.
#[cfg(not(test))]
mod qemu {
    use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
    use std::fs::File;
    use std::io::BufWriter;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::Counts;

    static COUNTS: Mutex<Counts> = Mutex::new(Counts::new());

    const ADD_U64: c_int = 0;
    const NO_REGISTERS: c_int = 0;

    #[repr(C)]
    pub struct Translated {
        _opaque: [u8; 0],
    }

    extern "C" {
        fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, call: extern "C" fn(u64, *mut Translated));
        fn qemu_plugin_register_atexit_cb(id: u64, call: extern "C" fn(u64, *mut c_void), data: *mut c_void);
        fn qemu_plugin_tb_vaddr(block: *const Translated) -> u64;
        fn qemu_plugin_tb_n_insns(block: *const Translated) -> usize;
        fn qemu_plugin_register_vcpu_tb_exec_inline(block: *mut Translated, op: c_int, at: *mut c_void, value: u64);
        fn qemu_plugin_register_vcpu_tb_exec_cb(
            block: *mut Translated,
            call: extern "C" fn(c_uint, *mut c_void),
            flags: c_int,
            data: *mut c_void,
        );
    }

    fn counts() -> MutexGuard<'static, Counts> {
        COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[no_mangle]
    pub static qemu_plugin_version: c_int = 1;

    /// # Safety
    ///
    /// QEMU gives `count` strings.
    #[no_mangle]
    pub unsafe extern "C" fn qemu_plugin_install(
        id: u64,
        _about: *const c_void,
        count: c_int,
        arguments: *const *const c_char,
    ) -> c_int {
        let argument = |at| CStr::from_ptr(*arguments.offset(at)).to_string_lossy().into_owned();
        match Counts::with((0..count as isize).map(argument)) {
            Ok(found) => *counts() = found,
            Err(error) => {
                eprintln!("leadline-instructions: {error}");
                return 1;
            }
        }
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut());
        0
    }

    extern "C" fn translated(_id: u64, block: *mut Translated) {
        let mut counts = counts();
        // SAFETY: QEMU's block, while it translates it; the counter is never freed.
        unsafe {
            let address = qemu_plugin_tb_vaddr(block);
            let counter = counts.block(address, qemu_plugin_tb_n_insns(block) as u64);
            if counts.marks.contains(&address) {
                qemu_plugin_register_vcpu_tb_exec_cb(block, marked, NO_REGISTERS, std::ptr::null_mut());
            }
            qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, counter.0.cast(), 1);
        }
    }

    extern "C" fn marked(_processor: c_uint, _data: *mut c_void) {
        counts().mark();
    }

    extern "C" fn ended(_id: u64, _data: *mut c_void) {
        let mut counts = counts();
        let file = File::create(&counts.out);
        if let Err(error) = file.and_then(|file| counts.write(BufWriter::new(file))) {
            eprintln!("leadline-instructions: {}: {error}", counts.out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[&str]) -> Result<Counts, String> {
        Counts::with(arguments.iter().map(|argument| argument.to_string()))
    }

    fn execute(counts: &mut Counts, address: u64, instructions: u64, times: u64) {
        let counter = counts.block(address, instructions);
        unsafe { *counter.0 += times };
    }

    fn written(counts: &mut Counts) -> String {
        let mut out = Vec::new();
        counts.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn without_marks_all_counts_in_order_of_addresses() {
        let mut counts = given(&["out=here"]).unwrap();
        execute(&mut counts, 0xffffffff81000000, 3, 2);
        execute(&mut counts, 0x1000, 5, 1);
        execute(&mut counts, 0x1000, 2, 4);
        execute(&mut counts, 0xffffffff81000000, 3, 1);
        counts.block(0x2000, 1);
        assert_eq!(written(&mut counts), "1000 2 4\n1000 5 1\nffffffff81000000 3 3\n");
    }

    #[test]
    fn of_stretches_between_marks_the_longest_counts() {
        let mut counts = given(&["out=here", "mark=0x10", "mark=20"]).unwrap();
        assert_eq!(counts.marks, [0x10, 0x20]);
        execute(&mut counts, 0x1000, 1, 900); // before the first
        for times in [7, 50, 8] {
            counts.mark();
            execute(&mut counts, 0x1000, 1, times);
        }
        execute(&mut counts, 0x3000, 1, 900); // after the last
        assert_eq!(written(&mut counts), "1000 1 50\n");
    }

    #[test]
    fn a_single_mark_bounds_no_stretch() {
        let mut counts = given(&["out=here", "mark=10"]).unwrap();
        execute(&mut counts, 0x1000, 1, 9);
        counts.mark();
        execute(&mut counts, 0x1000, 1, 9);
        assert_eq!(written(&mut counts), "");
    }

    #[test]
    fn what_is_no_argument_is_refused() {
        let told = |arguments: &[&str]| given(arguments).err().unwrap();
        assert_eq!(told(&[]), "out=FILE is missing");
        assert_eq!(told(&["out=x", "mark=here"]), "mark=here is no hexadecimal address");
        assert_eq!(told(&["inline=on"]), "inline=on is neither out=FILE nor mark=ADDRESS");
    }
}
