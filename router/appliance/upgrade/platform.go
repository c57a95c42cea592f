package upgrade

import (
	"encoding/binary"
	"errors"
)

// The names of processors by the numbers in the headers of programs.
var (
	elfProcessors  = map[uint16]string{40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64"}
	peProcessors   = map[uint16]string{0x8664: "amd64", 0xaa64: "arm64"}
	machProcessors = map[uint32]string{0x01000007: "amd64", 0x0100000c: "arm64"}
)

// headerSize is how much of a program describes its platform.
const headerSize = 4096

// platformOf returns the platform that a program is for, as in "linux/amd64", or an error
// if it is not a program. Programs for Linux and other systems with the same format are
// not told apart.
func platformOf(header []byte) (string, error) {
	unknown := func(name string) string {
		if name == "" {
			return "unknown"
		}
		return name
	}
	le := binary.LittleEndian
	switch {
	case len(header) >= 20 && string(header[:4]) == "\x7fELF":
		return "linux/" + unknown(elfProcessors[le.Uint16(header[18:])]), nil
	case len(header) >= 8 && le.Uint32(header) == 0xfeedfacf:
		return "darwin/" + unknown(machProcessors[le.Uint32(header[4:])]), nil
	case len(header) >= 64 && string(header[:2]) == "MZ":
		at := le.Uint32(header[60:])
		if at < headerSize && int(at)+6 <= len(header) && string(header[at:at+4]) == "PE\x00\x00" {
			return "windows/" + unknown(peProcessors[le.Uint16(header[at+4:])]), nil
		}
	}
	return "", errors.New("is neither a bundle of a release nor a program")
}
