// Keeps a page up to date: from a stream of events, or by loading its fragments again. It
// rests while the page is hidden: a browser has few connections to a service.

import { all, number, on, showTimes, skew, swap } from './main.js'

let source, timer, seconds
let paused = false
let state = ''
// link is that of the broker, as the last event has it.
let link

// prepare starts what the state line of a part asks for.
export function prepare(root) {
	for (const select of all(root, '[data-refresh]')) {
		select.value = seconds = +(sessionStorage.refresh ?? select.dataset.refresh)
		select.parentElement.hidden = false
		select.onchange = () => {
			seconds = +(sessionStorage.refresh = select.value)
			start()
		}
	}
	for (const button of all(root, '[data-pause]')) {
		button.ariaPressed = paused
		button.onclick = () => {
			button.ariaPressed = paused = !paused
			start()
		}
	}
	if (source || timer) show(state)
	else start()
}

const stream = () => document.querySelector('[data-live]')?.dataset.live

// start follows the service, if the page is seen and was not paused.
function start(failed) {
	source?.close()
	clearTimeout(timer)
	source = timer = null
	if (document.hidden) return
	if (!stream()) {
		show(!seconds ? '' : failed ? 'lost' : 'live')
		if (seconds) timer = setTimeout(refresh, seconds * 1000)
	} else if (paused) show('paused')
	else follow(stream())
}

function follow(address) {
	source = new EventSource(address)
	source.onopen = () => {
		const wasLost = state === 'lost'
		show('live')
		// Or what was missed would never be shown.
		if (wasLost) refresh()
	}
	source.onerror = () => {
		show('lost')
		// What was refused, the browser does not try again: the session may have ended.
		if (source.readyState === EventSource.CLOSED) timer = setTimeout(refresh, 5000)
	}
	source.addEventListener('metrics', event => sample(JSON.parse(event.data)))
	source.addEventListener('state', event => {
		if (link && link !== event.data) refresh()
		link = event.data
	})
}

// refresh loads the fragments again, and goes on.
async function refresh() {
	const done = await swap(location.href, 'refresh')
	if (done) asOf(Date.now() - skew)
	start(done === false)
}

function asOf(at) {
	const shown = document.querySelector('.stateline time')
	shown.dateTime = new Date(at).toISOString()
	showTimes(shown)
}

// sample shows the values of an event: in elements with data-metric, and in charts.
function sample(values) {
	for (const e of all(document, '[data-metric]')) {
		const value = values[e.dataset.metric]
		if (value !== undefined) e.textContent = value === null ? '–' : number(value)
	}
	asOf(values.at)
	document.dispatchEvent(new CustomEvent('sample', { detail: values }))
}

function show(now) {
	state = now
	for (const e of all(document, '[data-state]')) e.hidden = e.dataset.state !== state
}

on('visibilitychange', () => {
	if (document.hidden || (stream() ? paused : !seconds)) start()
	// Or what was missed would never be shown.
	else refresh()
})
