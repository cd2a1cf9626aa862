// A closed-loop client in Go, of the standard library alone: each operation looks a value up in a map.
//
// It keeps to the contract in book/client.md, step by step as the client on that page does in Python.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const contents = 100 // values that are stored

type parameters struct {
	payloadSeed, workers, warmup, measured int
	corrupt                                bool
}

// A stamp is wall and CPU time of the process, in ns.
type stamp struct{ wall, cpu int64 }

// A pass is one repeat: the latencies of every worker, and what its last operation returned.
type pass struct {
	latencies  [][]int64
	last       [][]byte
	start, end int64
	cpu        int64
}

var begin = time.Now()

func now() stamp {
	var at syscall.Timespec
	const processCPU = 2 // CLOCK_PROCESS_CPUTIME_ID
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, processCPU, uintptr(unsafe.Pointer(&at)), 0); errno != 0 {
		fail(1, "no clock of the process's CPU time: %v", errno)
	}
	return stamp{time.Since(begin).Nanoseconds(), at.Nano()}
}

func fail(status int, format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(status)
}

// read takes the arguments apart; what is unknown, missing or impossible is wrong use.
func read() (name string, repeats int, given parameters, output string) {
	var switches, text string
	flag.StringVar(&name, "case", "", "what one operation is: lookup")
	flag.IntVar(&repeats, "repeats", 0, "how often to measure")
	flag.StringVar(&switches, "switches", "{}", "JSON; this client has none")
	flag.StringVar(&text, "parameters", "", "JSON")
	flag.StringVar(&output, "output", "", "folder for latency.hlog")
	flag.Parse() // ends with status 2 by itself when an option is wrong
	if name != "lookup" {
		fail(2, "unknown case %q", name)
	}
	if repeats < 1 || output == "" || flag.NArg() > 0 {
		fail(2, "expected --repeats of at least 1, --output, and no other words")
	}
	for key := range object(switches) {
		fail(2, "unknown switch %s", key)
	}
	found := object(text)
	wanted := map[string]*int{
		"payload_seed": &given.payloadSeed, "workers": &given.workers,
		"warmup_operations": &given.warmup, "measured_operations": &given.measured,
	}
	for key, value := range found {
		target, known := any(wanted[key]), wanted[key] != nil
		if key == "corrupt" {
			target, known = &given.corrupt, true
		}
		if !known {
			fail(2, "unknown parameter %s", key)
		}
		if err := json.Unmarshal(value, target); err != nil {
			fail(2, "parameter %s: %v", key, err)
		}
	}
	for key := range wanted {
		if found[key] == nil {
			fail(2, "missing parameter %s", key)
		}
	}
	if given.workers < 1 || given.warmup < 0 || given.measured < 1 {
		fail(2, "expected at least one worker and one measured operation")
	}
	return name, repeats, given, output
}

func object(text string) map[string]json.RawMessage {
	var found map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		fail(2, "not a JSON object: %q: %v", text, err)
	}
	return found
}

// ownFiles is the digest of the executable: with nothing but the standard library it holds all that is executed.
func ownFiles() string {
	path, err := os.Executable()
	if err != nil {
		fail(1, "%v", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		fail(1, "%v", err)
	}
	return digest(data)
}

func digest(parts ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(parts, nil))
	return hex.EncodeToString(sum[:])
}

// payload makes every value from the seed and from nothing else; 96 bytes that do not compress.
func payload(seed int) [][]byte {
	values := make([][]byte, contents)
	for n := range values {
		for part := 0; part < 3; part++ {
			sum := sha256.Sum256([]byte(fmt.Sprintf("%d/%d/%d", seed, n, part)))
			values[n] = append(values[n], sum[:]...)
		}
	}
	return values
}

// measure executes one closed loop for each worker: an operation begins when the one before has ended.
func measure(store map[int][]byte, first, operations, workers int) pass {
	done := pass{latencies: make([][]int64, workers), last: make([][]byte, workers)}
	for worker := range done.latencies {
		done.latencies[worker] = make([]int64, operations)
	}
	var together sync.WaitGroup
	together.Add(workers)
	start := now()
	for worker := 0; worker < workers; worker++ {
		go func(worker int) {
			defer together.Done()
			latencies := done.latencies[worker]
			for n := range latencies {
				before := time.Now()
				done.last[worker] = store[(first+n)%len(store)]
				latencies[n] = max(time.Since(before).Nanoseconds(), 1)
			}
		}(worker)
	}
	together.Wait()
	end := now()
	done.start, done.end, done.cpu = start.wall, end.wall, end.cpu-start.cpu
	return done
}

func main() {
	name, repeats, given, output := read()
	own := ownFiles()
	stamps := []stamp{now()} // A: own files hashed
	values := payload(given.payloadSeed)
	stamps = append(stamps, now()) // B: payload made, nothing to connect to
	store := make(map[int][]byte, contents)
	for n, value := range values {
		store[n] = value
		if given.corrupt {
			store[n] = []byte("damaged")
		}
	}
	measure(store, 0, given.warmup, given.workers)
	stamps = append(stamps, now()) // C: fixture made, warmed up
	passes := make([]pass, repeats)
	for repeat := range passes {
		passes[repeat] = measure(store, given.warmup+repeat*given.measured, given.measured, given.workers)
	}
	stamps = append(stamps, now()) // D: the last repeat
	var checked [][]byte
	for repeat, done := range passes {
		wanted := values[(given.warmup+(repeat+1)*given.measured-1)%contents]
		for worker, found := range done.last {
			if !bytes.Equal(found, wanted) {
				fail(3, "repeat %d, worker %d: not the value that was stored", repeat, worker)
			}
		}
		checked = append(checked, wanted)
	}
	stamps = append(stamps, now()) // E: answers compared, nothing to close
	fmt.Printf("client: map\nclient-version: 1\nown-files-sha256: %s\nworkers: %d\n", own, given.workers)
	fmt.Printf("payload-sha256: %s\nchecked-sha256: %s\n", digest(values...), digest(checked...))
	for i, at := range stamps {
		fmt.Printf("stage-%c: %d %d\n", 'a'+i, at.wall-stamps[0].wall, at.cpu)
	}
	if err := writeLog(filepath.Join(output, "latency.hlog"), passes, stamps[0].wall); err != nil {
		fail(1, "%v", err)
	}
	report(name, passes, given, stamps)
}

// report prints a result for each repeat, and one for the process.
func report(name string, passes []pass, given parameters, stamps []stamp) {
	operations := given.workers * given.measured
	var all histogram
	var cpu int64
	for _, done := range passes {
		var sum int64
		for _, latencies := range done.latencies {
			for _, ns := range latencies {
				sum += ns
				all.record(ns)
			}
		}
		cpu += done.cpu
		fmt.Printf("Benchmark%s %d %.1f ns/op\n", name, operations, float64(sum)/float64(operations))
	}
	total := len(passes) * operations
	fmt.Printf("Benchmark%s %d", name, total)
	for _, share := range []float64{50, 90, 99, 99.9} {
		fmt.Printf(" %d p%g-ns", all.percentile(share), share)
	}
	fmt.Printf(" %d max-ns", all.percentile(100))
	whole := float64(stamps[4].cpu - stamps[0].cpu)
	fmt.Printf(" %.1f cpu-E-A-ns/op %.1f cpu-measured-ns/op\n", whole/float64(total), float64(cpu)/float64(total))
}
