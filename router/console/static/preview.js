// Shows what the stream that is edited would do with messages as they come on its source.
// It ends when the page is hidden: a browser has few connections to a service.

import { connect } from './listen.js'
import { all, fail, load, on, parse, replace, texts } from './main.js'

// of messages, the last ones
const kept = 20

// of the editor, which each of its steps renders anew
let button
let source, messages, changed, sending

// prepare makes the button of a part follow the source topic, and goes on if it did before.
export function prepare(root) {
	for (const b of all(root, '[data-follow]')) {
		button = b
		b.ariaPressed = Boolean(source)
		b.onclick = () => source ? stop() : follow()
	}
}

function follow() {
	stop()
	messages = []
	button.ariaPressed = changed = true
	source = connect(button.dataset.follow + '?' + new URLSearchParams({ filter: button.form.elements.sourcetopic.value }), message => {
		messages = [...messages, message].slice(-kept)
		changed = true
	}, stop)
}

function stop(why) {
	source?.close()
	source = null
	button.ariaPressed = false
	if (why) fail(why)
}

// send has the service process the messages by the form as it is now.
async function send() {
	if (!source || sending || !changed) return
	changed = false
	sending = true
	try {
		const body = new URLSearchParams(new FormData(button.form))
		body.set('step', 'preview')
		body.set('messages', JSON.stringify(messages))
		const { shows, text } = await load(location.href, 'outcome', { method: 'POST', body })
		if (!shows) stop(texts.failed)
		else if (source) replace(parse(text).firstElementChild, 'refresh')
	} catch {
		stop(texts.offline)
	}
	sending = false
}

setInterval(send, 1000)
on('input', () => { changed = true })
on('change', event => { if (source && event.target.name === 'sourcetopic') follow() })
on('visibilitychange', () => stop())
