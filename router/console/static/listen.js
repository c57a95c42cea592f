// Shows messages as they are published, the newest first. It rests while the page is hidden:
// a browser has few connections to a service.

import { all, fail, local, main, make, number, on, texts, visible } from './main.js'

// kept is the number of rows.
const kept = 200

// prepare makes the form of a part listen.
export function prepare(root) {
	for (const form of all(root, '[data-listen]')) listen(form)
}

function listen(form) {
	const card = form.parentElement
	for (const e of card.querySelectorAll('[data-script]')) e.hidden = false
	const rows = card.querySelector('tbody')
	const [pause, save] = form.querySelectorAll('[type="button"]')
	let source, address, messages = [], left = 0
	const leaveOut = n => { card.querySelector('output').textContent = number(left += n) }

	const show = message => {
		messages.unshift(message)
		const row = make('tr')
		const cell = (textContent, className = '') => make('td', { textContent, className })
		row.append(cell(local(message.at, 11)), make('th', { scope: 'row', textContent: visible(message.topic) }),
			cell(visible(message.payload, '\n\t') + (message.truncated ? ' …' : '') + (message.encoding ? ' · ' + message.encoding : ''), 'payload'),
			cell(message.qos + (message.retain ? ' R' : '')), cell(properties(message), 'payload'))
		rows.prepend(row)
		messages.length = Math.min(messages.length, kept)
		rows.rows[kept]?.remove()
	}
	const start = () => {
		source?.close()
		if (!address || document.hidden) return
		source = connect(address, message => pause.ariaPressed === 'true' ? leaveOut(1) : show(message))
		source.addEventListener('skipped', event => leaveOut(JSON.parse(event.data).skipped))
	}
	form.onsubmit = event => {
		event.preventDefault()
		pause.parentElement.hidden = false
		const filters = new FormData(form).get('filters').split('\n').map(f => f.trim()).filter(Boolean)
		address = form.dataset.listen + '?' + new URLSearchParams(filters.map(f => ['filter', f]))
		start()
	}
	on('visibilitychange', start)
	pause.onclick = () => { pause.ariaPressed = pause.ariaPressed !== 'true' }
	save.onclick = () => {
		const link = make('a', { href: URL.createObjectURL(new Blob([messages.map(m => JSON.stringify(m)).join('\n')])), download: 'messages.jsonl' })
		link.click()
		URL.revokeObjectURL(link.href)
	}
}

// properties returns the properties of MQTT 5, one per line.
const properties = message => Object.entries(message.properties ?? {}).flatMap(([name, value]) => Array.isArray(value)
	? value.map(p => visible(p.name) + '=' + visible(p.value)) : name + ': ' + visible(String(value))).join('\n')

// connect receives the messages of a stream. It shows why one was refused, and calls refused.
export function connect(address, receive, refused) {
	const source = new EventSource(address)
	source.onopen = () => main.querySelector(':scope > .failed')?.remove()
	source.onmessage = event => receive(JSON.parse(event.data))
	source.onerror = () => {
		if (source.readyState !== EventSource.CLOSED) return
		explain(address)
		refused?.()
	}
	return source
}

// explain shows why a stream was refused, which an EventSource does not tell.
async function explain(address) {
	const stop = new AbortController()
	try {
		const response = await fetch(address, { mode: 'same-origin', redirect: 'error', signal: stop.signal })
		fail(response.status === 401 ? texts.ended : response.ok ? texts.failed : (await response.json()).message)
	} catch {
		fail(texts.offline)
	}
	stop.abort()
}
