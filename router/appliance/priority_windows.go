package appliance

import "golang.org/x/sys/windows"

// LowerPriority lowers the priority of this process below that of a service beside it, unless it has one
// already.
func LowerPriority() {
	process := windows.CurrentProcess()
	if class, err := windows.GetPriorityClass(process); err == nil && class != windows.IDLE_PRIORITY_CLASS {
		windows.SetPriorityClass(process, windows.BELOW_NORMAL_PRIORITY_CLASS) //nolint:errcheck // without it the priority stays what it is
	}
}
