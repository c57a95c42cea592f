package appliance

import "golang.org/x/sys/windows"

// LowerPriority makes this process yield the processor to others, such as a service beside it.
func LowerPriority() {
	windows.SetPriorityClass(windows.CurrentProcess(), windows.BELOW_NORMAL_PRIORITY_CLASS) //nolint:errcheck // without it the priority stays what it is
}
